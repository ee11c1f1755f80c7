"""Where a query starts and ends, from its options: `startingOffsets` and its kin.

On each side one instant for all goes before timestamps by partition, and both go before offsets, as in Spark. What is
wrong becomes a complaint of the `OptionReader`.
"""

from __future__ import annotations

from spark_streamlog.options import OptionReader, QueryKind
from spark_streamlog.planning.offset_limits import (
    EARLIEST,
    LATEST,
    Earliest,
    GlobalTimestamp,
    Latest,
    OffsetLimit,
    OffsetsByPartition,
    RelativeStart,
)
from spark_streamlog.planning.partition_json import offsets_from_json, timestamps_from_json
from spark_streamlog.planning.relative_start import FORMS, relative_start_of

_JSON_EXAMPLE = '{"topicA":{"0":23,"1":-1},"topicB":"latest"}'


def starting_limit(options: OptionReader, kind: QueryKind) -> OffsetLimit:
    """Earliest in a batch query unless told otherwise, else latest."""
    default: OffsetLimit = Earliest() if kind is QueryKind.BATCH else Latest()
    limit = _limit(options, "starting", default)
    if kind is QueryKind.BATCH and _stands_at(limit, Latest(), LATEST):
        options.complain(
            "startingOffsets cannot be latest in a batch query, also not for one partition: nothing lies behind it"
        )
    return limit


def ending_limit(options: OptionReader, kind: QueryKind) -> OffsetLimit:
    """Latest unless told otherwise, which only a batch query can be."""
    if kind is QueryKind.STREAM:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            options.refuse(name, "is not valid in a streaming query: it has no end")
        return Latest()
    limit = _limit(options, "ending", Latest())
    if _stands_at(limit, Earliest(), EARLIEST):
        options.complain("endingOffsets cannot be earliest, also not for one partition: nothing lies before it")
    return limit


def _limit(options: OptionReader, side: str, default: OffsetLimit) -> OffsetLimit:
    global_timestamp = options.integer(f"{side}Timestamp", minimum=0)
    names = f"{side}OffsetsByTimestamp", f"{side}Offsets"
    timestamps = options.parsed(names[0], lambda value: timestamps_from_json(value, option=names[0]))
    offsets = options.parsed(names[1], lambda value: _offsets_of(value.strip(), names[1], is_start=side == "starting"))
    if global_timestamp is not None:
        return GlobalTimestamp(option=f"{side}Timestamp", timestamp_ms=global_timestamp)
    return timestamps or offsets or default


def _offsets_of(value: str, name: str, *, is_start: bool) -> OffsetLimit:
    words: dict[str, OffsetLimit] = {"earliest": Earliest(), "latest": Latest()}
    found = words.get(value.lower()) or relative_start_of(value)
    if isinstance(found, RelativeStart) and not is_start:
        raise ValueError(f"{value[:60]!r} says where to start, not where to end: give latest, JSON or endingTimestamp")
    if found is None and not value.startswith("{"):
        relative = f", {FORMS}" if is_start else ""
        raise ValueError(f"{value[:60]!r} is not earliest, latest{relative}, nor JSON such as {_JSON_EXAMPLE}")
    return found or offsets_from_json(value, option=name)


def _stands_at(limit: OffsetLimit, whole: OffsetLimit, offset: int) -> bool:
    if isinstance(limit, OffsetsByPartition):
        return offset in limit.by_partition.values() or offset in limit.by_topic.values()
    return limit == whole
