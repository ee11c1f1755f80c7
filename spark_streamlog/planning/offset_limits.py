"""Where a query starts and ends, as set by the user: eight sealed kinds, and how each applies to partitions.

    Earliest()                 the log start                      startingOffsets=earliest
    Latest()                   the readable end                   endingOffsets=latest
    OffsetsByPartition(...)    an offset, -2 or -1 each           {"a":{"0":23,"1":-2},"b":"earliest"}
    TimestampsByPartition(...) the first record at or after       {"a":{"0":1700000000000}}
    GlobalTimestamp(...)       the same instant everywhere        startingTimestamp=1700000000000
    BeforeNow(...)             the first record since then        startingOffsets=-10m
    BeforeEnd(...)             a count of offsets below the end   startingOffsets=latest-1000
    CommittedByGroup(...)      a consumer group's offsets         startingOffsets=group:billing

The last three are relative, and only starts: see `relative_start` for their syntax.

A limit becomes *places*: per partition an offset, EARLIEST or LATEST, or a pending lookup: the first record at a
timestamp, a count of offsets below the end, a group's offset. The caller does the lookups; the `settle_*` functions
take the results and decide what a missing one means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from broker_core.model.identifiers import OffsetSpec, TopicPartition
from spark_streamlog.errors import condition_error

EARLIEST = int(OffsetSpec.EARLIEST)
LATEST = int(OffsetSpec.LATEST)


@dataclass(frozen=True, slots=True)
class Earliest:
    pass


@dataclass(frozen=True, slots=True)
class Latest:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsByPartition:
    """`by_topic` holds EARLIEST or LATEST for topics given as a whole. Together they name every assigned partition."""

    option: str
    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)
    by_topic: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampsByPartition:
    option: str
    by_partition: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalTimestamp:
    option: str
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeNow:
    """The first record whose timestamp is within this duration before now, in each partition; none: the end."""

    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeEnd:
    """This count of offsets below the readable end of each partition, and never below its log start."""

    offset_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedByGroup:
    """The offsets that a consumer group has committed."""

    group_id: str


RelativeStart = BeforeNow | BeforeEnd | CommittedByGroup
OffsetLimit = Earliest | Latest | OffsetsByPartition | TimestampsByPartition | GlobalTimestamp | RelativeStart


def moves_with_time(limit: OffsetLimit) -> bool:
    """Whether the same limit, resolved again a moment later, can name other offsets in every partition."""
    return isinstance(limit, Latest | BeforeNow | BeforeEnd | CommittedByGroup)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Every assigned partition is in exactly one of the mappings, or `group_id` applies to all of them."""

    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    timestamps: dict[TopicPartition, int] = field(default_factory=dict)
    counts_below_end: dict[TopicPartition, int] = field(default_factory=dict)
    group_id: str | None = None


def places_of(limit: OffsetLimit, assigned: Collection[TopicPartition], *, is_start: bool, now_ms: int) -> Places:
    """Raises ..._DOES_NOT_MATCH_ASSIGNED when the limit names other partitions than those assigned."""
    match limit:
        case BeforeNow(duration_ms=duration_ms):
            return Places(timestamps=dict.fromkeys(assigned, max(0, now_ms - duration_ms)))
        case BeforeEnd(offset_count=offset_count):
            return Places(counts_below_end=dict.fromkeys(assigned, offset_count))
        case CommittedByGroup(group_id=group_id):
            return Places(group_id=group_id)
        case Earliest():
            return Places(offsets=dict.fromkeys(assigned, EARLIEST))
        case Latest():
            return Places(offsets=dict.fromkeys(assigned, LATEST))
        case GlobalTimestamp(timestamp_ms=timestamp_ms):
            return Places(timestamps=dict.fromkeys(assigned, timestamp_ms))
        case TimestampsByPartition(by_partition=timestamps):
            if timestamps.keys() != set(assigned):
                raise _mismatch("KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED", limit, timestamps, assigned, is_start)
            return Places(timestamps=dict(timestamps))
        case OffsetsByPartition():
            return Places(offsets=_spread(limit, assigned, is_start))


def resolve_timestamps(
    limit: OffsetLimit,
    timestamps: Mapping[TopicPartition, int],
    found: Mapping[TopicPartition, int | None],
    *,
    latest_if_none: bool,
) -> dict[TopicPartition, int]:
    """Offsets for the timestamps looked up. No record at or after one: LATEST, or STREAMLOG_NO_OFFSET_FOR_TIMESTAMP.

    A start relative to now never fails for that: often there is no record that new.
    """
    settled: dict[TopicPartition, int] = {}
    for tp, timestamp_ms in sorted(timestamps.items()):
        offset = found[tp]
        if offset is None and not latest_if_none and not isinstance(limit, BeforeNow):
            raise condition_error(
                "STREAMLOG_NO_OFFSET_FOR_TIMESTAMP",
                topic_partition=str(tp),
                timestamp_ms=timestamp_ms,
                option=getattr(limit, "option", ""),
            )
        settled[tp] = LATEST if offset is None else offset
    return settled


def resolve_counts_below_end(
    counts: Mapping[TopicPartition, int],
    log_starts: Mapping[TopicPartition, int],
    log_ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The offset that many below the end of each partition, or its log start."""
    return {tp: max(log_starts[tp], log_ends[tp] - count) for tp, count in counts.items()}


def resolve_committed(
    group_id: str,
    assigned: Collection[TopicPartition],
    committed: Mapping[TopicPartition, int],
    *,
    is_group_known: bool,
) -> dict[TopicPartition, int]:
    """The start of a query that continues from a group: EARLIEST in a partition that the group has no offset for.

    Such a partition was usually added after the group's last commit, and has not been read. A group that has no offset
    at all, or none in any partition of the query, raises STREAMLOG_GROUP_WITHOUT_OFFSETS: a typo must not read
    everything.
    """
    if not is_group_known or (assigned and not committed.keys() & set(assigned)):
        raise condition_error("STREAMLOG_GROUP_WITHOUT_OFFSETS", group=group_id, partitions=names_of(assigned))
    return {tp: committed.get(tp, EARLIEST) for tp in assigned}


def check_start_against_end(start: OffsetLimit, end: OffsetLimit) -> None:
    """The checks that need no log: two limits by partition must name the same ones, and no start is above its end."""
    if isinstance(start, OffsetsByPartition) and isinstance(end, OffsetsByPartition):
        if start.by_topic or end.by_topic:
            return
        _check_pairs("UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET", start.by_partition, end.by_partition)
    elif isinstance(start, TimestampsByPartition) and isinstance(end, TimestampsByPartition):
        _check_pairs("UNRESOLVED_START_TIMESTAMP_GREATER_THAN_END_TIMESTAMP", start.by_partition, end.by_partition)


def _check_pairs(condition: str, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
    if starts.keys() != ends.keys():
        raise condition_error(
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET",
            tps_for_start_offset=names_of(starts),
            tps_for_end_offset=names_of(ends),
        )
    for tp in sorted(starts):
        check_order(condition, tp, starts[tp], ends[tp])


def check_order(condition: str, tp: TopicPartition, start: int, end: int) -> None:
    """Raises the condition if both are offsets (or timestamps) and the start is greater."""
    if start >= 0 and end >= 0 and start > end:
        raise condition_error(condition, start_offset=start, end_offset=end, topic=tp.topic, partition=tp.partition)


def names_of(partitions: Iterable[TopicPartition]) -> str:
    """`a-0, a-1`, in order, for messages."""
    return ", ".join(str(tp) for tp in sorted(partitions)) or "none"


def _spread(
    limit: OffsetsByPartition, assigned: Collection[TopicPartition], is_start: bool
) -> dict[TopicPartition, int]:
    offsets = {tp: limit.by_topic[tp.topic] for tp in assigned if tp.topic in limit.by_topic} | dict(limit.by_partition)
    nowhere = limit.by_topic.keys() - {tp.topic for tp in assigned}
    if offsets.keys() != set(assigned) or nowhere:
        condition = (
            "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED" if is_start else "KAFKA_END_OFFSET_DOES_NOT_MATCH_ASSIGNED"
        )
        raise _mismatch(condition, limit, limit.by_partition, assigned, is_start)
    return offsets


def _mismatch(
    condition: str,
    limit: OffsetsByPartition | TimestampsByPartition,
    named: Collection[TopicPartition],
    assigned: Collection[TopicPartition],
    is_start: bool,
) -> Exception:
    topics = [f"{topic} (all)" for topic in sorted(getattr(limit, "by_topic", ()))]
    listed = ", ".join([*topics, *(str(tp) for tp in sorted(named))]) or "none"
    return condition_error(
        condition,
        option=limit.option,
        specified_partitions=listed,
        assigned_partitions=names_of(assigned),
        position="start" if is_start else "end",
    )
