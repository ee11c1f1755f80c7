"""Splitting the offsets of a query into pieces, one per task, as Spark's KafkaOffsetRangeCalculator does.

Rules: empty ranges are dropped; `max_records_per_partition` cuts first; if there are then fewer pieces than
`min_partitions`, ranges are cut in proportion to their size. Ranges whose share rounds to one piece stay whole and are
left out of the arithmetic, so that many small partitions do not keep a large one from being cut. Pieces of one range
differ by one offset at most and the last takes the rounding. For all limits, the pieces cover each range exactly: no
offset is dropped or repeated, and they are in order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from broker_core.model.identifiers import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """The offsets of one partition from `from_offset` (inclusive) to `until_offset` (exclusive).

    There may be fewer records than offsets: compaction and transactions leave gaps.
    """

    topic_partition: TopicPartition
    from_offset: int
    until_offset: int

    @property
    def size(self) -> int:
        """Count of offsets; zero or below when there is nothing to read."""
        return self.until_offset - self.from_offset


def split_ranges(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records_per_partition: int | None = None
) -> list[OffsetRange]:
    """The pieces, in the order of the ranges. Both limits are positive or None."""
    pieces = [r for r in ranges if r.size > 0]
    if max_records_per_partition is not None:
        pieces = [p for r in pieces for p in _cut(r, -(-r.size // max_records_per_partition))]
    if min_partitions is not None and len(pieces) < min_partitions:
        pieces = _cut_by_share(pieces, min_partitions)
    return pieces


def _cut_by_share(ranges: list[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    total = sum(r.size for r in ranges)
    whole = [r for r in ranges if _share(r.size, total, min_partitions) == 1]
    total_to_cut = total - sum(r.size for r in whole)
    pieces_to_make = max(min_partitions - len(whole), 1)
    return [
        piece
        for r in ranges
        for piece in (
            [r] if _share(r.size, total, min_partitions) == 1 else _cut(r, _share(r.size, total_to_cut, pieces_to_make))
        )
    ]


def _share(size: int, total: int, pieces: int) -> int:
    """The number of pieces for a range of this size: rounded half up, as Java's Math.round, at least one."""
    return max(math.floor(size / total * pieces + 0.5), 1)


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    pieces: list[OffsetRange] = []
    from_offset = whole.from_offset
    for number in range(min(count, whole.size)):
        size = (whole.until_offset - from_offset) // (min(count, whole.size) - number)
        pieces.append(
            OffsetRange(topic_partition=whole.topic_partition, from_offset=from_offset, until_offset=from_offset + size)
        )
        from_offset += size
    return pieces
