"""Computes from a query's filters what of a log to read: partitions, offsets, a least timestamp, keys.

A filter removes only what it certainly excludes. Spark evaluates every filter again on the rows that are read, so a
filter that is not understood here only costs reading. All filters must hold (AND). None of the columns topic,
partition, offset and timestamp is ever null; a key may be.

    topic, partition   any comparison       the partition is read or not
    offset             = IN < <= > >=       ranges of offsets
    timestamp          = IN > >=            a least timestamp; an upper bound does not limit the end, because
                                            timestamps need not ascend
    key                = IN, IS NULL        sets of keys, one of which a record must have
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import MAX_OFFSET

Range = tuple[int, int]
"""Offsets from the first (inclusive) to the second (exclusive)."""
Ranges = tuple[Range, ...]
"""Ascending, none empty, none adjacent to another."""

MAX_KEY_COUNT: Final = 100
"""Most keys of one filter to look up: each is looked up in each segment, and most segments match a longer list."""

MAX_RANGE_COUNT: Final = 1000
"""Most ranges of one partition: more of them cost more to find than to read."""

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFilter:
    """`column operator value`, with several values for `in` and none for `is null`.

    Operators: = <> < <= > >= in, is null. Values are of the column: text for topic, numbers for partition and offset,
    for timestamp microseconds since 1970, and for key the bytes in the log. None of them is None.
    """

    column: str
    operator: str
    values: tuple[Any, ...] = ()

    def __str__(self) -> str:
        """Without the keys themselves, which may be confidential and must not appear in a log file."""
        if self.operator == "is null":
            return f"{self.column} is null"
        shown = ["?"] * len(self.values) if self.column == "key" else [repr(value) for value in self.values]
        return f"{self.column} {self.operator} {shown[0] if self.operator != 'in' else '(' + ', '.join(shown) + ')'}"


def admits(filters: Iterable[ColumnFilter], tp: TopicPartition) -> bool:
    """Whether records of this partition can pass."""
    values = {"topic": tp.topic, "partition": tp.partition}
    return all(_holds(one, values[one.column]) for one in filters if one.column in values)


def offset_ranges(filters: Iterable[ColumnFilter], whole: Range) -> Ranges:
    """The offsets of `whole` that can pass."""
    ranges: Ranges = (whole,) if whole[0] < whole[1] else ()
    for one in filters:
        if one.column == "offset":
            ranges = intersection(ranges, _offsets_of(one))
    return coalesced(ranges, MAX_RANGE_COUNT)


def least_timestamp_ms(filters: Iterable[ColumnFilter]) -> int | None:
    """Records below it cannot pass; None when nothing bounds them."""
    least: int | None = None
    for one in filters:
        if one.column != "timestamp" or one.operator not in ("=", ">", ">=", "in") or not one.values:
            continue
        # Columns have microseconds, the log milliseconds: the first one at or, for `>`, after the bound.
        first_us = min(one.values) + (one.operator == ">")
        first_ms = -(-first_us // 1000)
        least = first_ms if least is None else max(least, first_ms)
    return least


def key_sets(filters: Iterable[ColumnFilter]) -> tuple[frozenset[bytes | None], ...]:
    """A record that passes has a key in each of the sets; None stands for a null key."""
    sets = []
    for one in filters:
        if one.column != "key":
            continue
        if one.operator == "is null":
            sets.append(frozenset[bytes | None]({None}))
        elif one.operator in ("=", "in") and len(one.values) <= MAX_KEY_COUNT:
            sets.append(frozenset[bytes | None](one.values))
    return tuple(sets)


def intersection(first: Ranges, second: Ranges) -> Ranges:
    """The offsets in both."""
    found: list[Range] = []
    left, right = 0, 0
    while left < len(first) and right < len(second):
        start, end = max(first[left][0], second[right][0]), min(first[left][1], second[right][1])
        if start < end:
            found.append((start, end))
        if first[left][1] <= second[right][1]:
            left += 1
        else:
            right += 1
    return tuple(found)


def union(ranges: Iterable[Range]) -> Ranges:
    """The offsets in any of them; the ranges may be in any order."""
    found: list[Range] = []
    for start, end in sorted(each for each in ranges if each[0] < each[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)


def without(ranges: Ranges, cut: Range) -> Ranges:
    """The offsets outside of `cut`."""
    if cut[0] >= cut[1]:
        return ranges
    return union(piece for start, end in ranges for piece in ((start, min(end, cut[0])), (max(start, cut[1]), end)))


def coalesced(ranges: Ranges, max_count: int) -> Ranges:
    """At most that many ranges: the smallest gaps are read too."""
    if len(ranges) <= max_count:
        return ranges
    gaps = [following[0] - before[1] for before, following in pairwise(ranges)]
    kept = set(sorted(range(len(gaps)), key=lambda slot: -gaps[slot])[: max_count - 1])
    found: list[Range] = [ranges[0]]
    for slot, following in enumerate(ranges[1:]):
        if slot in kept:
            found.append(following)
        else:
            found[-1] = (found[-1][0], following[1])
    return tuple(found)


def shown(filters: Sequence[ColumnFilter]) -> str:
    """For messages: `partition = 3 and key in (?, ?)`."""
    return " and ".join(map(str, filters)) or "none"


def _holds(one: ColumnFilter, value: Any) -> bool:
    if one.operator == "in":
        return value in one.values
    if one.operator == "is null":
        return False
    return _COMPARISONS[one.operator](value, one.values[0])


def _offsets_of(one: ColumnFilter) -> Ranges:
    if one.operator == "in":
        return union((value, value + 1) for value in one.values)
    if one.operator == "is null":
        return ()
    value = one.values[0]
    ranges: dict[str, Range] = {
        "=": (value, value + 1),
        "<": (-MAX_OFFSET, value),
        "<=": (-MAX_OFFSET, value + 1),
        ">": (value + 1, MAX_OFFSET + 1),
        ">=": (value, MAX_OFFSET + 1),
    }
    return union([ranges.get(one.operator, (-MAX_OFFSET, MAX_OFFSET + 1))])
