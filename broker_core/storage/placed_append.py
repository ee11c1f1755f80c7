"""Appends batches at given offsets, gaps included, to the folder of a partition: for copies of a log.

    gaps allowed below `until_offset`   published and synced first: from then on a missing offset is not damage
    new segment at the first offset     only if the log is to begin above its end: nothing below it exists
    batches                             as replicated ones, in one append with one sync
    new, empty segment at the end       only if the last batch ends below `until_offset`
    log start

If the process dies in between, the log ends at a whole batch, and the same copy goes on from there.
"""

from __future__ import annotations

from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import CorruptBatchError, StreamlogError
from broker_core.placed_writes import PlacedAppend
from broker_core.record.batch_header import write_placement
from broker_core.record.batch_reader import iter_headers
from broker_core.storage.append_group import append_group, begin_segment_at
from broker_core.storage.maintenance import delete_records
from broker_core.storage.partition_writer import PartitionWriter


def append_placed(writer: PartitionWriter, append: PlacedAppend, now_ms: int) -> None:
    """As `PlacedWrites.append_placed` for one partition, under its lock."""
    log = writer.log
    append.require_log_end(log.log_end_offset)
    first_offset, has_gaps = _prepare(append, leader_epoch=max(log.leader_epochs.latest_epoch, 0))
    if has_gaps:
        writer.publish_gaps(append.until_offset)
    log_start_offset = append.log_start_offset or 0
    if log_start_offset > log.log_end_offset and first_offset > log.log_end_offset:
        begin_segment_at(writer, min(first_offset, log_start_offset), now_ms)
    if append.batches:
        request = AppendRequest(batches=append.batches, origin=AppendOrigin.REPLICATION)
        (outcome,) = append_group(writer, [request], now_ms=now_ms, is_synced=True)
        if isinstance(outcome, StreamlogError):
            raise outcome
    if append.until_offset > log.log_end_offset:
        begin_segment_at(writer, append.until_offset, now_ms)
    if log_start_offset > log.log_start_offset:
        delete_records(writer, log_start_offset)


def _prepare(append: PlacedAppend, *, leader_epoch: int) -> tuple[int, bool]:
    """(offset of the first batch or else the end, whether offsets are missing). Sets the leader epoch in the
    batches."""
    first_offset: int | None = None
    next_offset = append.from_offset
    has_gaps = False
    for position, header in iter_headers(append.batches):
        if header.base_offset < next_offset or header.next_offset > append.until_offset:
            raise CorruptBatchError(
                f"{append.partition}: a batch at offsets [{header.base_offset}, {header.next_offset}) is not in order"
                f" in [{next_offset}, {append.until_offset})",
                offset=header.base_offset,
            )
        write_placement(append.batches, position, base_offset=header.base_offset, leader_epoch=leader_epoch)
        first_offset = header.base_offset if first_offset is None else first_offset
        has_gaps |= header.base_offset != next_offset
        next_offset = header.next_offset
    first_offset = append.until_offset if first_offset is None else first_offset
    return first_offset, has_gaps or next_offset != append.until_offset
