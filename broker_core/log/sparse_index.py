"""The two sparse indexes of a segment, over the bytes of their files.

    .index       8 bytes per entry: int32 offset relative to the segment's base, int32 position of that batch
    .timeindex  12 bytes per entry: int64 largest timestamp (ms) so far, int32 relative offset of the batch that has it

Both are big-endian and ascending. An entry's offset is the *last* offset of its batch. A look-up returns a floor: the
entry at or below the argument, or the segment's start; the caller scans batches from there. Nothing is copied: the
classes wrap bytes, a memoryview or an mmap and read single entries by binary search.

An index is derived from its segment and may be missing, torn, or padded with zeros (Kafka preallocates and trims only
on a clean close). `check` returns how many leading entries can be right and the problem of the rest. A file with a
problem is rebuilt by feeding the segment's batches to `segment_index_feed.SegmentIndexFeed`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import Buffer

from broker_core.model.identifiers import NO_TIMESTAMP
from broker_core.model.limits import INDEX_ENTRY_OFFSET_DELTA_MAX

OFFSET_INDEX_ENTRY_BYTES = 8
TIME_INDEX_ENTRY_BYTES = 12

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class OffsetPosition(NamedTuple):
    """The batch whose last offset is `offset` begins at byte `position` of the segment."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """The largest timestamp up to and including the batch whose last offset is `offset`. -1 ms: none."""

    timestamp_ms: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexCheck:
    """`entry_count` leading entries agree with the segment; `problem` is None for a good (or zero-padded) file."""

    entry_count: int
    problem: str | None = None


def encode_offset_entry(entry: OffsetPosition, *, base_offset: int) -> bytes:
    """One .index entry. The relative offset always fits a signed 32-bit number, because the segment rolls before it
    would not."""
    return _OFFSET_ENTRY.pack(_relative(entry.offset, base_offset), entry.position)


def encode_time_entry(entry: TimestampOffset, *, base_offset: int) -> bytes:
    """One .timeindex entry."""
    return _TIME_ENTRY.pack(entry.timestamp_ms, _relative(entry.offset, base_offset))


def _relative(offset: int, base_offset: int) -> int:
    relative = offset - base_offset
    assert 0 <= relative <= INDEX_ENTRY_OFFSET_DELTA_MAX, f"offset {offset} does not fit the segment at {base_offset}"
    return relative


class OffsetIndex:
    """Read side of a .index file. `entry_count` defaults to all whole entries of `entries`; pass a check's count."""

    def __init__(self, entries: Buffer, *, base_offset: int, entry_count: int | None = None) -> None:
        self._entries = memoryview(entries)
        self.base_offset = base_offset
        self.entry_count = len(self._entries) // OFFSET_INDEX_ENTRY_BYTES if entry_count is None else entry_count

    def entry(self, slot: int) -> OffsetPosition:
        relative, position = _OFFSET_ENTRY.unpack_from(self._entries, slot * OFFSET_INDEX_ENTRY_BYTES)
        return OffsetPosition(offset=self.base_offset + relative, position=position)

    def floor(self, offset: int) -> OffsetPosition:
        """Where to start scanning for `offset`: the last entry at or below it, else the segment's start."""
        slot = self.slots_until(offset + 1) - 1
        return self.entry(slot) if slot >= 0 else OffsetPosition(offset=self.base_offset, position=0)

    def floor_of_position(self, position: int) -> OffsetPosition:
        """The last entry at or before byte `position`, else the segment's start."""
        low, high = 0, self.entry_count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle).position <= position:
                low = middle + 1
            else:
                high = middle
        return self.entry(low - 1) if low else OffsetPosition(offset=self.base_offset, position=0)

    def slots_until(self, offset: int) -> int:
        """The number of entries below `offset`, which truncating the log to `offset` keeps."""
        relative = offset - self.base_offset
        low, high = 0, self.entry_count
        while low < high:
            middle = (low + high) // 2
            if _OFFSET_ENTRY.unpack_from(self._entries, middle * OFFSET_INDEX_ENTRY_BYTES)[0] < relative:
                low = middle + 1
            else:
                high = middle
        return low

    @staticmethod
    def check(entries: Buffer, *, base_offset: int, next_offset: int, segment_size_bytes: int) -> IndexCheck:
        """Checks a .index file against its segment: whole entries, ascending, inside it; zero padding is allowed."""
        view = memoryview(entries)
        count = len(view) // OFFSET_INDEX_ENTRY_BYTES
        last_relative, last_position = -1, -1
        for slot in range(count):
            relative, position = _OFFSET_ENTRY.unpack_from(view, slot * OFFSET_INDEX_ENTRY_BYTES)
            if relative == 0 and position == 0:
                # A real entry never points at position 0: the first batch of a segment is not indexed.
                return _check_padding(view, slot, OFFSET_INDEX_ENTRY_BYTES)
            if relative <= last_relative or position <= last_position:
                return IndexCheck(entry_count=slot, problem=f"entry {slot} is not in ascending order")
            if base_offset + relative >= next_offset or position >= segment_size_bytes:
                return IndexCheck(entry_count=slot, problem=f"entry {slot} points past the end of the segment")
            last_relative, last_position = relative, position
        return _check_tail(view, count, OFFSET_INDEX_ENTRY_BYTES)


class TimeIndex:
    """Read side of a .timeindex file."""

    def __init__(self, entries: Buffer, *, base_offset: int, entry_count: int | None = None) -> None:
        self._entries = memoryview(entries)
        self.base_offset = base_offset
        self.entry_count = len(self._entries) // TIME_INDEX_ENTRY_BYTES if entry_count is None else entry_count

    def entry(self, slot: int) -> TimestampOffset:
        timestamp_ms, relative = _TIME_ENTRY.unpack_from(self._entries, slot * TIME_INDEX_ENTRY_BYTES)
        return TimestampOffset(timestamp_ms=timestamp_ms, offset=self.base_offset + relative)

    def last_entry(self) -> TimestampOffset:
        """The segment's largest timestamp as far as it is indexed; -1 ms at the base offset when there is none."""
        return self.entry(self.entry_count - 1) if self.entry_count else self._beginning()

    def floor(self, timestamp_ms: int) -> TimestampOffset:
        """The last entry at or below the timestamp: every record before `offset`'s batch is older or as old."""
        low, high = 0, self.entry_count
        while low < high:
            middle = (low + high) // 2
            if _TIME_ENTRY.unpack_from(self._entries, middle * TIME_INDEX_ENTRY_BYTES)[0] <= timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return self.entry(low - 1) if low else self._beginning()

    def slots_until(self, offset: int) -> int:
        """The number of entries with an offset below `offset`, which truncating the log to `offset` keeps."""
        low, high = 0, self.entry_count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle).offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _beginning(self) -> TimestampOffset:
        return TimestampOffset(timestamp_ms=NO_TIMESTAMP, offset=self.base_offset)

    @staticmethod
    def check(entries: Buffer, *, base_offset: int, next_offset: int) -> IndexCheck:
        """Checks a .timeindex file against its segment: timestamps and offsets ascend, offsets are inside it."""
        view = memoryview(entries)
        count = len(view) // TIME_INDEX_ENTRY_BYTES
        last_timestamp_ms, last_relative = NO_TIMESTAMP, -1
        for slot in range(count):
            timestamp_ms, relative = _TIME_ENTRY.unpack_from(view, slot * TIME_INDEX_ENTRY_BYTES)
            # An entry of zeros can be real only if it is the only one: a record of 1970 at the base offset.
            if timestamp_ms == 0 and relative == 0 and (slot > 0 or count > 1):
                return _check_padding(view, slot, TIME_INDEX_ENTRY_BYTES)
            if timestamp_ms <= last_timestamp_ms or relative <= last_relative:
                return IndexCheck(entry_count=slot, problem=f"entry {slot} is not in ascending order")
            if base_offset + relative >= next_offset:
                return IndexCheck(entry_count=slot, problem=f"entry {slot} points past the end of the segment")
            last_timestamp_ms, last_relative = timestamp_ms, relative
        return _check_tail(view, count, TIME_INDEX_ENTRY_BYTES)


def _check_padding(view: memoryview, slot: int, entry_bytes: int) -> IndexCheck:
    rest = bytes(view[slot * entry_bytes :])
    problem = None if not rest.strip(b"\0") else f"entry {slot} is empty, but others follow"
    return IndexCheck(entry_count=slot, problem=problem)


def _check_tail(view: memoryview, count: int, entry_bytes: int) -> IndexCheck:
    rest = bytes(view[count * entry_bytes :])
    problem = f"{len(rest)} bytes after entry {count} are not a whole entry" if rest.strip(b"\0") else None
    return IndexCheck(entry_count=count, problem=problem)
