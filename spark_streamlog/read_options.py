"""The options of the source, read once into a frozen value that travels to the tasks."""

from __future__ import annotations

import enum
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from broker_core.model.identifiers import IsolationLevel
from spark_streamlog.options import MAX_INTEGER, LogTarget, OptionReader
from spark_streamlog.planning.offset_limits import (
    EARLIEST,
    LATEST,
    Earliest,
    GlobalTimestamp,
    Latest,
    OffsetLimit,
    OffsetsByPartition,
    check_start_against_end,
)
from spark_streamlog.planning.partition_json import offsets_from_json, partitions_from_json, timestamps_from_json
from spark_streamlog.planning.subscription import AssignPartitions, SubscribePattern, SubscribeTopics, Subscription

logger = logging.getLogger("spark_streamlog")

DEFAULT_MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000

TEXTS_WITHOUT_EFFECT: Final = ("groupIdPrefix", "kafka.group.id", "kafka.client.id", "kafka.client.rack")
NUMBERS_WITHOUT_EFFECT: Final = (
    "fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes", "max.poll.records",
    "max.poll.interval.ms", "session.timeout.ms", "heartbeat.interval.ms", "request.timeout.ms",
    "default.api.timeout.ms", "metadata.max.age.ms", "connections.max.idle.ms", "retry.backoff.ms",
    "retry.backoff.max.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "receive.buffer.bytes",
    "send.buffer.bytes",
)  # fmt: skip
"""Settings of a consumer about a network and a group that are not there: accepted, so that a Kafka query's options can
stay."""

Parsed = TypeVar("Parsed")


class QueryKind(enum.Enum):
    """What the options are read for. A schema is asked for before it is known whether the query is a stream."""

    BATCH = "batch"
    STREAM = "streaming"
    NOT_YET_KNOWN = "not yet known"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Counts are of offsets; None is no limit."""

    target: LogTarget
    subscription: Subscription
    starting: OffsetLimit
    ending: OffsetLimit
    latest_if_no_timestamp_matches: bool
    """What a starting timestamp without a record at or after it means: the end of the partition, or an error."""
    fail_on_data_loss: bool
    include_headers: bool
    isolation: IsolationLevel
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    fetch_offset_attempt_count: int
    fetch_offset_retry_interval_ms: int


def parse_read_options(given: Mapping[str, str], kind: QueryKind) -> ReadOptions:
    """Raises STREAMLOG_INVALID_OPTIONS with all complaints, and what `check_start_against_end` raises."""
    options = OptionReader(given, role="source")
    target = options.log_target()
    subscription = _subscription(options)
    starting = _starting(options, kind)
    ending = _ending(options, kind)
    min_offsets, max_offsets = _offsets_per_trigger(options, kind)
    parsed = ReadOptions(
        target=target,
        subscription=subscription,
        starting=starting,
        ending=ending,
        latest_if_no_timestamp_matches=options.choice(
            "startingOffsetsByTimestampStrategy", ("error", "latest"), default="error"
        )
        == "latest",
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        include_headers=options.flag("includeHeaders", default=False),
        isolation=_isolation(options),
        min_partitions=options.integer("minPartitions", minimum=1, maximum=MAX_INTEGER),
        max_records_per_partition=options.integer("maxRecordsPerPartition", minimum=1),
        max_offsets_per_trigger=max_offsets,
        min_offsets_per_trigger=min_offsets,
        max_trigger_delay_ms=options.duration_ms("maxTriggerDelay", default_ms=DEFAULT_MAX_TRIGGER_DELAY_MS),
        fetch_offset_attempt_count=options.integer("fetchOffset.numRetries", minimum=1, maximum=MAX_INTEGER) or 3,
        fetch_offset_retry_interval_ms=_retry_interval_ms(options),
    )
    _check_settings_without_effect(options)
    _refuse_what_the_source_owns(options)
    options.finish()
    check_start_against_end(starting, ending)
    return parsed


def _subscription(options: OptionReader) -> Subscription:
    nothing = SubscribeTopics(topics=frozenset())
    named, pattern, assigned = (options.text(name) for name in ("subscribe", "subscribePattern", "assign"))
    if sum(value is not None for value in (named, pattern, assigned)) != 1:
        options.complain("exactly one of subscribe, subscribePattern and assign must be given")
        return nothing
    if named is not None:
        topics = frozenset(name.strip() for name in named.split(",")) - {""}
        if not topics:
            options.complain(f"subscribe names no topic: {named!r}")
        return SubscribeTopics(topics=topics)
    if pattern is not None:
        try:
            re.compile(pattern.strip())
        except (re.error, OverflowError, RecursionError) as trouble:
            options.complain(f"subscribePattern is not a regular expression: {pattern!r} ({trouble})")
        if not pattern.strip():
            options.complain("subscribePattern is empty")
        return SubscribePattern(pattern=pattern.strip())
    found = _or_complain(options, "assign", lambda: partitions_from_json(assigned or ""))
    return AssignPartitions(partitions=found or frozenset())


def _starting(options: OptionReader, kind: QueryKind) -> OffsetLimit:
    default: OffsetLimit = Earliest() if kind is QueryKind.BATCH else Latest()
    limit = _limit(options, "starting", default)
    if kind is QueryKind.BATCH and _stands_at(limit, Latest(), LATEST):
        options.complain(
            "startingOffsets cannot be latest in a batch query, also not for one partition: nothing lies behind it"
        )
    return limit


def _ending(options: OptionReader, kind: QueryKind) -> OffsetLimit:
    if kind is QueryKind.STREAM:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            options.refuse(name, "is not valid in a streaming query: it has no end")
        return Latest()
    limit = _limit(options, "ending", Latest())
    if _stands_at(limit, Earliest(), EARLIEST):
        options.complain("endingOffsets cannot be earliest, also not for one partition: nothing lies before it")
    return limit


def _limit(options: OptionReader, side: str, default: OffsetLimit) -> OffsetLimit:
    """The three options of one side; the global timestamp wins over those by partition, and both over the offsets."""
    global_timestamp = options.integer(f"{side}Timestamp", minimum=0)
    by_timestamp = options.text(f"{side}OffsetsByTimestamp")
    by_offset = options.text(f"{side}Offsets")
    timestamps = offsets = None
    if by_timestamp is not None:
        name = f"{side}OffsetsByTimestamp"
        timestamps = _or_complain(options, name, lambda: timestamps_from_json(by_timestamp, option=name))
    if by_offset is not None:
        name = f"{side}Offsets"
        offsets = _or_complain(options, name, lambda: _word_or_offsets(by_offset.strip(), name))
    if global_timestamp is not None:
        return GlobalTimestamp(option=f"{side}Timestamp", timestamp_ms=global_timestamp)
    return timestamps or offsets or default


def _word_or_offsets(value: str, name: str) -> OffsetLimit:
    words: dict[str, OffsetLimit] = {"earliest": Earliest(), "latest": Latest()}
    return words.get(value.lower()) or offsets_from_json(value, option=name)


def _stands_at(limit: OffsetLimit, whole: OffsetLimit, offset: int) -> bool:
    if isinstance(limit, OffsetsByPartition):
        return offset in limit.by_partition.values() or offset in limit.by_topic.values()
    return limit == whole


def _offsets_per_trigger(options: OptionReader, kind: QueryKind) -> tuple[int | None, int | None]:
    least = options.integer("minOffsetsPerTrigger", minimum=1)
    most = options.integer("maxOffsetsPerTrigger", minimum=1)
    if least is not None and most is not None and least > most:
        options.complain(f"minOffsetsPerTrigger ({least}) is higher than maxOffsetsPerTrigger ({most})")
    if kind is QueryKind.BATCH:
        for name in ("minOffsetsPerTrigger", "maxOffsetsPerTrigger", "maxTriggerDelay"):
            if options.text(name) is not None:
                logger.warning("The option %s is ignored in batch queries", name)
    return least, most


def _isolation(options: OptionReader) -> IsolationLevel:
    levels = {"read_committed": IsolationLevel.READ_COMMITTED, "read_uncommitted": IsolationLevel.READ_UNCOMMITTED}
    return levels[options.choice("kafka.isolation.level", tuple(levels), default="read_committed")]


def _retry_interval_ms(options: OptionReader) -> int:
    # What is above, no sleep can take.
    given = options.integer("fetchOffset.retryIntervalMs", minimum=0, maximum=MAX_INTEGER)
    return 1000 if given is None else given


def _check_settings_without_effect(options: OptionReader) -> None:
    options.integer("kafkaConsumer.pollTimeoutMs", minimum=0)
    for name in TEXTS_WITHOUT_EFFECT:
        options.text(name)
    for name in NUMBERS_WITHOUT_EFFECT:
        options.integer(f"kafka.{name}", minimum=-1)


def _refuse_what_the_source_owns(options: OptionReader) -> None:
    options.refuse(
        "kafka.auto.offset.reset",
        "is not supported: startingOffsets says where a new query starts; a restarted one goes on from its checkpoint",
    )
    for side in ("key", "value"):
        options.refuse(
            f"kafka.{side}.deserializer",
            f"is not supported: the column {side} is binary, deserialize it with DataFrame operations",
        )
    options.refuse("kafka.enable.auto.commit", "is not supported: progress is kept in the query's checkpoint")
    options.refuse("kafka.interceptor.classes", "is not supported: interceptors could change what is read")


def _or_complain(options: OptionReader, name: str, parse: Callable[[], Parsed]) -> Parsed | None:
    try:
        return parse()
    except ValueError as trouble:
        options.complain(f"{name}: {trouble}")
        return None
