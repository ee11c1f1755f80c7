"""The live ranges of one partition, ordered by offset, as columns of numbers: 100,000 of them take some megabytes."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from broker_core.object_log.data_range import DataRange, PlacedRange

NUMBER_COLUMNS: Final = (
    "base_offset",
    "offset_count",
    "position",
    "size_bytes",
    "record_count",
    "first_timestamp_ms",
    "max_timestamp_ms",
    "filter_bytes",
)


class RangeTable:
    """Base offsets ascend, ranges do not overlap; after compaction there may be gaps between them."""

    def __init__(self) -> None:
        self._base_offsets = array("q")
        self._end_offsets = array("q")
        self._positions = array("q")
        self._sizes = array("q")
        self._record_counts = array("q")
        self._first_timestamps = array("q")
        self._max_timestamps = array("q")
        self._filter_sizes = array("q")
        self._objects: list[str] = []
        self.size_bytes = 0
        """Of all ranges."""

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[PlacedRange]:
        return (self[row] for row in range(len(self._objects)))

    def __getitem__(self, row: int) -> PlacedRange:
        base_offset = self._base_offsets[row]
        return PlacedRange(
            base_offset,
            DataRange(
                self._objects[row],
                self._positions[row],
                self._sizes[row],
                self._end_offsets[row] - base_offset,
                self._record_counts[row],
                self._first_timestamps[row],
                self._max_timestamps[row],
                self._filter_sizes[row],
            ),
        )

    def find(self, offset: int) -> int:
        """Row of the first range that ends above `offset`; `len` when all end at or below it."""
        return bisect_right(self._end_offsets, offset)

    def row_at(self, base_offset: int) -> int | None:
        """Row of the range that begins exactly at `offset`."""
        row = bisect_right(self._base_offsets, base_offset) - 1
        return row if row >= 0 and self._base_offsets[row] == base_offset else None

    def size_between(self, first: int, last: int) -> int:
        """Bytes of the rows [first, last)."""
        return sum(self._sizes[first:last])

    def first_row_at_or_after(self, timestamp_ms: int, from_row: int = 0) -> int | None:
        """The first range from that row on with a record at or after the time."""
        for row in range(from_row, len(self)):
            if self._max_timestamps[row] >= timestamp_ms:
                return row
        return None

    def row_with_largest_timestamp(self) -> int | None:
        """The first of the ranges with the largest timestamp; None if no range has a timestamp."""
        largest_ms = max(self._max_timestamps, default=-1)
        return None if largest_ms < 0 else self._max_timestamps.index(largest_ms)

    def append(self, placed: PlacedRange) -> None:
        self.replace(len(self), len(self), (placed,))

    def replace(self, start: int, stop: int, rows: Sequence[PlacedRange]) -> None:
        """Replaces the rows [start, stop) by `rows`."""
        self.size_bytes += sum(row.data.size_bytes for row in rows) - sum(self._sizes[start:stop])
        self._base_offsets[start:stop] = array("q", [row.base_offset for row in rows])
        self._end_offsets[start:stop] = array("q", [row.end_offset for row in rows])
        self._positions[start:stop] = array("q", [row.data.position for row in rows])
        self._sizes[start:stop] = array("q", [row.data.size_bytes for row in rows])
        self._record_counts[start:stop] = array("q", [row.data.record_count for row in rows])
        self._first_timestamps[start:stop] = array("q", [row.data.first_timestamp_ms for row in rows])
        self._max_timestamps[start:stop] = array("q", [row.data.max_timestamp_ms for row in rows])
        self._filter_sizes[start:stop] = array("q", [row.data.filter_bytes for row in rows])
        self._objects[start:stop] = [row.data.object for row in rows]

    # -- for checkpoints --

    @property
    def objects(self) -> Sequence[str]:
        return self._objects

    def columns(self) -> tuple[array[int], ...]:
        """In the order of NUMBER_COLUMNS."""
        counts = array("q", [end - base for base, end in zip(self._base_offsets, self._end_offsets, strict=True)])
        return (
            self._base_offsets,
            counts,
            self._positions,
            self._sizes,
            self._record_counts,
            self._first_timestamps,
            self._max_timestamps,
            self._filter_sizes,
        )

    @classmethod
    def from_columns(cls, columns: Sequence[array[int]], objects: list[str]) -> RangeTable:
        """The inverse of `columns` and `objects`."""
        table = cls()
        bases, counts, table._positions, table._sizes, table._record_counts = columns[:5]
        table._first_timestamps, table._max_timestamps, table._filter_sizes = columns[5:]
        table._base_offsets = bases
        table._end_offsets = array("q", [base + count for base, count in zip(bases, counts, strict=True)])
        table._objects = objects
        table.size_bytes = sum(table._sizes)
        return table
