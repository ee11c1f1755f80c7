"""Finds the last record of a partition, and the record at its offset in another log, to recognise a copy."""

from __future__ import annotations

from typing import Final

from broker_core.cluster import Cluster, PartitionBounds
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.record.batch_header import BatchHeader
from broker_core.record.batch_reader import Record, iter_headers, records_of

_FETCH_BYTES: Final = 1024 * 1024
_STEP_FACTOR: Final = 16


def find_last_record(cluster: Cluster, partition: TopicPartition, bounds: PartitionBounds) -> Record | None:
    """The last record below the high watermark. None: the partition has none, only gaps and control batches.

    Looks at more and more offsets before the end, because the last ones may be gaps.
    """
    start_offset, end_offset = bounds.log_start_offset, bounds.high_watermark
    step = 1
    while start_offset < end_offset:
        from_offset = max(start_offset, end_offset - step)
        batch = _last_batch(cluster, partition, from_offset, end_offset)
        if batch is not None:
            *_, last = records_of(batch)
            return last if last.offset >= start_offset else None
        if from_offset == start_offset:
            return None
        step *= _STEP_FACTOR
    return None


def find_record(cluster: Cluster, partition: TopicPartition, offset: int) -> Record | None:
    """The committed record at this offset, None for a gap. Raises OffsetOutOfRangeError."""
    fetched = cluster.fetch(partition, offset, max_bytes=1, isolation=IsolationLevel.READ_COMMITTED)
    for position, header in iter_headers(fetched.buffer):
        if header.base_offset > offset:
            return None
        if header.last_offset >= offset and _has_records(header):
            records = records_of(fetched.buffer, position)
            return next((record for record in records if record.offset == offset), None)
    return None


def _last_batch(cluster: Cluster, partition: TopicPartition, from_offset: int, end_offset: int) -> memoryview | None:
    last: memoryview | None = None
    while from_offset < end_offset:
        fetched = cluster.fetch(partition, from_offset, max_bytes=_FETCH_BYTES)
        for position, header in iter_headers(fetched.buffer):
            if _has_records(header) and header.base_offset < end_offset:
                last = fetched.buffer[position : position + header.size_bytes]
        if fetched.next_offset <= from_offset:
            break
        from_offset = fetched.next_offset
    return last


def _has_records(header: BatchHeader) -> bool:
    return header.record_count > 0 and not header.is_control
