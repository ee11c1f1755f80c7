"""Appends what a leader has to the folder of its follower: batches as they are, with their offsets and leader epochs.

    gaps                        of compaction: published and synced first, from then on a missing offset is no damage
    new segment at the first    only into an empty log: nothing below it exists
    batches                     in one append with one sync

A log starts anew (`restart_at`) empty, at an offset before or behind where it was. If the process dies in between, the
log is empty and starts somewhere else: the follower asks its leader again.
"""

from __future__ import annotations

from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import StreamlogError
from broker_core.record.batch_reader import iter_headers
from broker_core.storage.append_group import append_group, begin_segment_at
from broker_core.storage.checkpoints import LEADER_EPOCH_FILE_NAME, write_atomically
from broker_core.storage.maintenance import delete_records, truncate_to
from broker_core.storage.partition_writer import PartitionWriter
from broker_core.storage.storage_errors import translated


def append_replicated(writer: PartitionWriter, batches: bytearray, now_ms: int) -> None:
    """Whole batches that follow the log. Raises CorruptBatchError and StorageError; then nothing was appended."""
    log = writer.log
    headers = [header for _, header in iter_headers(batches)]
    offsets = [log.log_end_offset, *(header.next_offset for header in headers)]
    has_gaps = any(header.base_offset > end for header, end in zip(headers, offsets, strict=False))
    if has_gaps:
        writer.publish_gaps(offsets[-1])
    if headers and log.log_start_offset == log.log_end_offset < headers[0].base_offset:
        begin_segment_at(writer, headers[0].base_offset, now_ms)
    request = AppendRequest(batches=batches, origin=AppendOrigin.REPLICATION)
    (outcome,) = append_group(writer, [request], now_ms=now_ms, is_synced=True)
    if isinstance(outcome, StreamlogError):
        raise outcome


def begin_leader_epoch(writer: PartitionWriter, leader_epoch: int) -> None:
    """Durable when it returns. An epoch that the log has already changes nothing."""
    log = writer.log
    with translated("noting a leader epoch", writer.directory), writer.changing():
        if log.leader_epochs.assign(leader_epoch, log.log_end_offset):
            path = f"{writer.directory}/{LEADER_EPOCH_FILE_NAME}"
            write_atomically(writer.fs, path, log.leader_epochs.encode().encode())


def restart_at(writer: PartitionWriter, start_offset: int, now_ms: int) -> None:
    """Removes every record; the log starts and ends at the offset."""
    truncate_to(writer, min(start_offset, writer.log.log_start_offset))
    if writer.log.log_end_offset < start_offset:
        writer.publish_gaps(start_offset)
        begin_segment_at(writer, start_offset, now_ms)
        delete_records(writer, start_offset)
