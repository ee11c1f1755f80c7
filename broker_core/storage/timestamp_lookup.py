"""From a timestamp to the exact record, inside compressed batches too.

The time index and the headers lead to the batch; then its records are checked one by one. In a batch with log-append
time every record has the batch's timestamp.
"""

from __future__ import annotations

from broker_core.cluster import OffsetAndTimestamp
from broker_core.record.batch_reader import records_of
from broker_core.storage.segment_files import SegmentFiles
from broker_core.storage.segment_indexes import SegmentExtent, timestamp_of


def first_at_or_after(
    segment: SegmentFiles, extent: SegmentExtent, timestamp_ms: int, *, from_offset: int, until_offset: int
) -> OffsetAndTimestamp | None:
    """The segment's first record in [from_offset, until_offset) with a timestamp at or after `timestamp_ms`."""
    for position, header in segment.batches_from_timestamp(timestamp_ms, extent):
        if header.base_offset >= until_offset:
            return None
        if header.last_offset < from_offset:
            continue
        for record in records_of(segment.read_batch(position, header)):
            if record.timestamp_ms >= timestamp_ms and from_offset <= record.offset < until_offset:
                return OffsetAndTimestamp(offset=record.offset, timestamp_ms=record.timestamp_ms)
    return None


def first_with_largest(segment: SegmentFiles, extent: SegmentExtent, *, from_offset: int) -> OffsetAndTimestamp | None:
    """The segment's first record at or above `from_offset` that has the largest timestamp there; None without
    records."""
    best: OffsetAndTimestamp | None = None
    largest = segment.largest_timestamp(extent)
    found = segment.find_batch(max(from_offset, 0), extent)
    if found is None or largest.timestamp_ms < 0:
        return None
    start = found[0]
    top = segment.find_batch(largest.offset, extent)
    if top is not None and top[0] > start:
        start = top[0]
    for position, header in segment.walk(extent, position=start):
        if best is not None and timestamp_of(header) <= best.timestamp_ms:
            continue
        for record in records_of(segment.read_batch(position, header)):
            if record.offset >= from_offset and (best is None or record.timestamp_ms > best.timestamp_ms):
                best = OffsetAndTimestamp(offset=record.offset, timestamp_ms=record.timestamp_ms)
        if best is not None and best.timestamp_ms >= largest.timestamp_ms:
            return best
    return best
