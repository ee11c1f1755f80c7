"""The state of one partition after the commits: its ranges, its ends, how far it is compacted."""

from __future__ import annotations

from collections.abc import Sequence

import crc32c

from broker_core.log.segment_table import Segment
from broker_core.object_log.data_range import DataRange, PlacedRange
from broker_core.object_log.range_table import RangeTable


class PartitionImage:
    """Only the fold changes it."""

    def __init__(self) -> None:
        self.ranges = RangeTable()
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.clean_offset = 0
        """Below it every record is the newest of its key, as of the last compaction."""

    def append(self, data: DataRange) -> int:
        """Returns the range's base offset."""
        base_offset = self.log_end_offset
        self.ranges.append(PlacedRange(base_offset, data))
        self.log_end_offset += data.offset_count
        return base_offset

    def rows_between(self, from_offset: int, until_offset: int) -> tuple[int, int]:
        """[first, last) rows of the ranges that hold an offset in [from_offset, until_offset)."""
        first = self.ranges.find(from_offset)
        last = self.ranges.find(until_offset)
        if last < len(self.ranges) and self.ranges[last].base_offset < until_offset:
            last += 1
        return first, max(first, last)

    def covers(self, from_offset: int, until_offset: int) -> bool:
        """Whether the offsets are exactly those of whole existing ranges."""
        first, last = self.rows_between(from_offset, until_offset)
        return (
            first < last
            and self.ranges[first].base_offset == from_offset
            and self.ranges[last - 1].end_offset == until_offset
        )

    def replace(self, from_offset: int, until_offset: int, outputs: Sequence[PlacedRange]) -> list[str]:
        """Returns the object of each range that is gone."""
        first, last = self.rows_between(from_offset, until_offset)
        gone = list(self.ranges.objects[first:last])
        self.ranges.replace(first, last, outputs)
        return gone

    def move_log_start(self, offset: int) -> list[str]:
        """Returns the object of each range that is gone."""
        self.log_start_offset = offset
        row = self.ranges.find(offset)
        gone = list(self.ranges.objects[:row])
        self.ranges.replace(0, row, ())
        self.clean_offset = max(self.clean_offset, offset)
        return gone

    def segments(self) -> list[Segment]:
        """The ranges as segments for the planners of `log`, followed by an empty active one."""
        found = [
            Segment(
                base_offset=placed.base_offset,
                next_offset=placed.end_offset,
                size_bytes=placed.data.size_bytes,
                max_timestamp_ms=placed.data.max_timestamp_ms,
                first_timestamp_ms=placed.data.first_timestamp_ms,
            )
            for placed in self.ranges
        ]
        active = Segment(base_offset=self.log_end_offset, next_offset=self.log_end_offset, size_bytes=0)
        return [*found, active]


def input_digest(ranges: Sequence[PlacedRange]) -> str:
    """A digest of the ranges that a merge or a compaction has read: 8 hexadecimal digits."""
    digest = 0
    for placed in ranges:
        data = placed.data
        text = f"{placed.base_offset} {data.object} {data.position} {data.size_bytes} {data.offset_count}\n"
        digest = crc32c.crc32c(text.encode(), digest)
    return f"{digest:08x}"
