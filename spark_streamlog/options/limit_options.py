"""Where a query starts and ends, from its options: `startingOffsets` and related ones.

On each side one timestamp for all takes precedence over timestamps by partition, and both over offsets, as in Spark.
Errors become complaints of the `OptionReader`.
"""

from __future__ import annotations

from spark_streamlog.options.option_reader import OptionReader, QueryKind
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

_NAMED_COUNT = 3
"""A complaint names at most this many partitions; the option itself may name thousands."""


def starting_limit(options: OptionReader, kind: QueryKind) -> OffsetLimit:
    """The default is earliest in a batch query, else latest."""
    default: OffsetLimit = Earliest() if kind is QueryKind.BATCH else Latest()
    limit = _limit(options, "starting", default)
    if kind is QueryKind.BATCH and (where := _mentions_of(limit, Latest(), LATEST)):
        options.complain(
            f"startingOffsets cannot be latest in a batch query{where}: a batch query reads the records that exist "
            "when it starts, and none of them are after latest. To read all records, leave startingOffsets out or "
            "set earliest; to read the newest records, set latest-1000 or -10m; to read records written from now on,"
            " use readStream"
        )
    return limit


def ending_limit(options: OptionReader, kind: QueryKind) -> OffsetLimit:
    """The default is latest; only a batch query can set another one."""
    if kind is QueryKind.STREAM:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            options.refuse(name, "is not valid in a streaming query: it has no end")
        return Latest()
    limit = _limit(options, "ending", Latest())
    if where := _mentions_of(limit, Earliest(), EARLIEST):
        options.complain(
            f"endingOffsets cannot be earliest{where}: no record is before it. Leave endingOffsets out, or set latest"
            " or the offsets to end before"
        )
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
        raise ValueError(f"{value[:60]!r} is only for startingOffsets: set latest, JSON or endingTimestamp")
    if found is None and not value.startswith("{"):
        relative = f", {FORMS}" if is_start else ""
        raise ValueError(f"{value[:60]!r} is not earliest, latest{relative} or JSON such as {_JSON_EXAMPLE}")
    return found or offsets_from_json(value, option=name)


def _mentions_of(limit: OffsetLimit, whole: OffsetLimit, offset: int) -> str:
    """The places of `offset` in the option's value, as part of a sentence; empty if there are none."""
    if not isinstance(limit, OffsetsByPartition):
        return " (for all partitions)" if limit == whole else ""
    by_partition = [str(partition) for partition, found in limit.by_partition.items() if found == offset]
    by_topic = [f"topic {topic}" for topic, found in limit.by_topic.items() if found == offset]
    named = sorted([*by_partition, *by_topic])
    if not named:
        return ""
    more = f" and {len(named) - _NAMED_COUNT} more" if len(named) > _NAMED_COUNT else ""
    return f" ({offset} for {', '.join(named[:_NAMED_COUNT])}{more})"
