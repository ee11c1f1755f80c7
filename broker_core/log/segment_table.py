"""The segments of a partition: base offsets, ends, sizes, largest timestamps. Recovery fills it from the folder."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The state of one segment's files. `next_offset`: the offset after its last record; the next segment may begin
    later."""

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp_ms: int = -1
    """Largest timestamp of its batches, -1 when none has one."""
    first_timestamp_ms: int = -1
    """Largest timestamp of its first batch."""
    modified_ms: int = -1
    """When its file was last written: replaces the largest timestamp if no batch has one."""
    index_size_bytes: int = 0
    """The larger of its offset and time index."""

    @property
    def largest_timestamp_ms(self) -> int:
        """The time for retention and the compaction lags; -1 when neither batches nor the file have one."""
        return self.max_timestamp_ms if self.max_timestamp_ms >= 0 else self.modified_ms


class SegmentTable:
    """Ordered by base offset; the last one is active. Never empty once the log is open."""

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._segments = sorted(segments, key=_base_offset)

    def __iter__(self) -> Iterator[Segment]:
        return iter(tuple(self._segments))

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def floor(self, offset: int) -> Segment | None:
        """The segment whose range holds `offset`: the last one with base offset at or below it."""
        slot = bisect_right(self._segments, offset, key=_base_offset) - 1
        return self._segments[slot] if slot >= 0 else None

    def higher(self, base_offset: int) -> Segment | None:
        """The segment that follows the one at `base_offset`."""
        slot = bisect_right(self._segments, base_offset, key=_base_offset)
        return self._segments[slot] if slot < len(self._segments) else None

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """The segment that holds `offset` and all after it."""
        slot = bisect_right(self._segments, offset, key=_base_offset) - 1
        return tuple(self._segments[max(slot, 0) :])

    def put(self, segment: Segment) -> None:
        """Adds it or replaces the one with the same base offset."""
        slot = bisect_left(self._segments, segment.base_offset, key=_base_offset)
        is_known = slot < len(self._segments) and self._segments[slot].base_offset == segment.base_offset
        self._segments[slot : slot + is_known] = [segment]

    def remove(self, base_offset: int) -> None:
        self._segments = [segment for segment in self._segments if segment.base_offset != base_offset]

    def replace(self, removed: Iterable[int], added: Iterable[Segment]) -> None:
        """Swaps cleaned segments in. `removed`: base offsets."""
        gone = set(removed)
        kept = [segment for segment in self._segments if segment.base_offset not in gone]
        self._segments = sorted([*kept, *added], key=_base_offset)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
