"""How many bytes are between two offsets, and which offset a number of bytes reaches.

Uses the segments' sizes and their offset indexes. Inside a segment it walks over headers from the index entry below to
the wanted batch, so both results are exact for whole batches. `segments` are (base offset, extent) in order;
`open_segment` opens one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker_core.storage.segment_files import SegmentFiles
from broker_core.storage.segment_indexes import SegmentExtent

Segments = Sequence[tuple[int, SegmentExtent]]
OpenSegment = Callable[[int], SegmentFiles]


def bytes_between(segments: Segments, open_segment: OpenSegment, from_offset: int, until_offset: int) -> int:
    """Bytes of all batches that hold an offset in [from_offset, until_offset)."""
    total = 0
    for base_offset, extent in segments:
        if base_offset < until_offset and extent.next_offset > from_offset:
            total += bytes_within(open_segment(base_offset), extent, from_offset, until_offset)
    return total


def bytes_within(segment: SegmentFiles, extent: SegmentExtent, from_offset: int, until_offset: int) -> int:
    """The same for one segment."""
    start, end = 0, extent.end_position
    if from_offset >= until_offset:
        return 0
    if from_offset > segment.base_offset:
        first = segment.find_batch(from_offset, extent)
        if first is None or first[1].base_offset >= until_offset:
            return 0
        start = first[0]
    if until_offset < extent.next_offset:
        last = segment.find_batch(until_offset, extent)
        if last is not None:
            end = last[0] + (last[1].size_bytes if last[1].base_offset < until_offset else 0)
    return max(0, end - start)


def offset_within_bytes(
    segments: Segments, open_segment: OpenSegment, from_offset: int, until_offset: int, max_bytes: int
) -> int:
    """The end offset of as many batches as fit `max_bytes` together, at least one. The first is the batch that holds
    `from_offset`. Returns `until_offset` when no other batch begins below it."""
    left_bytes = max_bytes
    reached = -1
    for base_offset, extent in segments:
        if base_offset >= until_offset or extent.next_offset <= from_offset:
            continue
        segment = open_segment(base_offset)
        first = segment.find_batch(max(from_offset, base_offset), extent)
        if first is None:
            continue
        position, header = first
        if header.base_offset >= until_offset:
            break
        limit_position = position + left_bytes
        if reached < 0:
            limit_position = max(limit_position, position + header.size_bytes)
        ended, behind = segment.end_within(position, extent, min(limit_position, extent.end_position))
        reached = max(reached, ended)
        if behind is not None:
            return min(reached, until_offset) if behind.base_offset < until_offset else until_offset
        left_bytes -= extent.end_position - position
    return until_offset
