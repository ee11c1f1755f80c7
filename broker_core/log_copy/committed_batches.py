"""The record batches of a partition that are copied: those that a read-committed consumer sees.

Control batches, aborted transactions and batches that compaction emptied are skipped: their offsets become gaps. The
others keep their bytes, except the producer: its id and sequences are valid only in the log that assigned them, and
could be mistaken for another producer's in the target. So a batch is no longer transactional either.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.cluster import FetchedBatches
from broker_core.model.identifiers import NO_PRODUCER_ID
from broker_core.record.aborted_filter import AbortedFilter
from broker_core.record.batch_header import BatchHeader, write_plain_producer
from broker_core.record.batch_reader import check_crc, iter_headers
from broker_core.record.control_records import ControlType, read_control_type


@dataclass(frozen=True, slots=True, kw_only=True)
class PickedBatches:
    """Whole batches at their offsets in the source. Every offset in [from_offset, until_offset) was looked at; the last
    batch ends at `end_offset` (without batches: `from_offset`)."""

    from_offset: int
    until_offset: int
    end_offset: int
    batches: bytearray
    record_count: int


class CommittedBatches:
    """One sequential read of one partition."""

    def __init__(self) -> None:
        self._aborted = AbortedFilter()

    def pick(self, fetched: FetchedBatches, from_offset: int, until_offset: int) -> PickedBatches:
        """From the answer to a read-committed fetch at `from_offset`. Raises CorruptBatchError.

        The first batch may begin below `from_offset`: it is copied whole.
        """
        self._aborted.add(fetched.aborted_transactions)
        kept = bytearray()
        record_count = 0
        reached = end_offset = from_offset
        for position, header in iter_headers(fetched.buffer):
            if header.base_offset >= until_offset:
                break
            reached = header.next_offset
            if self._is_kept(fetched.buffer, position, header) and header.next_offset > from_offset:
                _append(kept, fetched.buffer[position : position + header.size_bytes], header)
                record_count += header.record_count
                end_offset = header.next_offset
        return PickedBatches(
            from_offset=from_offset,
            until_offset=max(reached, min(fetched.next_offset, until_offset)),
            end_offset=end_offset,
            batches=kept,
            record_count=record_count,
        )

    def _is_kept(self, buffer: memoryview, position: int, header: BatchHeader) -> bool:
        check_crc(buffer, position, header)
        if header.is_control:
            if header.record_count and read_control_type(buffer, position) is ControlType.ABORT:
                self._aborted.on_abort_marker(header.producer_id, header.last_offset)
            return False
        if header.is_transactional and self._aborted.is_hidden(header.producer_id, header.last_offset):
            return False
        return header.record_count > 0


def _append(kept: bytearray, batch: memoryview, header: BatchHeader) -> None:
    position = len(kept)
    kept += batch
    if header.producer_id != NO_PRODUCER_ID or header.is_transactional:
        write_plain_producer(kept, position)
