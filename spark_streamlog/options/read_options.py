"""The options of the source, read once into a frozen value that travels to the tasks."""

from __future__ import annotations

import enum
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass

from broker_core.model.identifiers import OWN_GROUP_PREFIXES, IsolationLevel
from spark_streamlog.options.format_options import source_formats
from spark_streamlog.options.ignored_options import ignored_options
from spark_streamlog.options.limit_options import ending_limit, starting_limit
from spark_streamlog.options.option_reader import MAX_INTEGER, LogTarget, OptionReader, QueryKind
from spark_streamlog.planning.offset_limits import OffsetLimit, check_start_against_end
from spark_streamlog.planning.partition_json import partitions_from_json
from spark_streamlog.planning.subscription import AssignPartitions, SubscribePattern, SubscribeTopics, Subscription
from spark_streamlog.serde.format_settings import RecordFormats

logger = logging.getLogger("spark_streamlog")

DEFAULT_MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000

DEFAULT_SMALL_BATCH_OFFSETS = 10_000
"""See `small_batch`. Spark needs some microseconds for a row that it gets with the plan, a tenth of a second for
tasks."""

MIN_PIN_RETENTION_MS = 1000
MAX_PIN_RETENTION_MS = 100 * 365 * 24 * 3600 * 1000
"""A hundred years: a lease that never ends, and an instant that fits every clock."""


class PushFilters(enum.Enum):
    """When a batch query's filters narrow what is read; see `pushed_filters`. The values of the option."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Counts are of offsets; None means no limit, no group, no pin."""

    target: LogTarget
    subscription: Subscription
    starting: OffsetLimit
    ending: OffsetLimit
    latest_if_no_timestamp_matches: bool
    """For a starting timestamp without a record at or after it: start at the end of the partition, or an error."""
    fail_on_data_loss: bool
    include_headers: bool
    isolation: IsolationLevel
    min_partitions: int | None
    max_records_per_partition: int | None
    max_partitions: int | None
    """The maximum number of Spark tasks of a query; None: by the bytes of its ranges. See `task_plan`."""
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    max_bytes_per_trigger: int | None
    small_batch_offsets: int
    """Micro-batches up to this size are read where they are planned; 0 leaves all of them to tasks."""
    checkpoint_location: str | None
    """The query's checkpoint, if the option is set for the source too: Spark passes it only to the sink."""
    group_id: str | None
    """The consumer group that stores a stream's progress."""
    pin_retention_ms: int | None
    """How long retention keeps the records that the stream still needs, since the last renewal of the pin."""
    fetch_offset_attempt_count: int
    fetch_offset_retry_interval_ms: int
    skips_unreadable_records: bool
    """Records and batches that cannot be decoded are skipped and counted instead of an error."""
    formats: RecordFormats
    """The formats of keys and values; a side without one stays binary."""
    push_filters: PushFilters
    ignored: tuple[str, ...]
    """Options of the user that are ignored."""


def parse_read_options(given: Mapping[str, str], kind: QueryKind) -> ReadOptions:
    """Raises STREAMLOG_INVALID_OPTIONS with all complaints, and what `check_start_against_end` raises."""
    options = OptionReader(given, role="source")
    target = options.log_target()
    subscription = _subscription(options)
    starting = starting_limit(options, kind)
    ending = ending_limit(options, kind)
    min_partitions, max_partitions = _partition_counts(options)
    min_offsets, max_offsets = _offsets_per_trigger(options)
    max_bytes = options.size_bytes("maxBytesPerTrigger", minimum=1)
    _warn_of_limits_in_a_batch(options, kind)
    group_id = _group_id(options, kind)
    _refuse_unsupported_options(options)
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
        min_partitions=min_partitions,
        max_records_per_partition=options.integer("maxRecordsPerPartition", minimum=1),
        max_partitions=max_partitions,
        max_offsets_per_trigger=max_offsets,
        min_offsets_per_trigger=min_offsets,
        max_trigger_delay_ms=options.duration_ms("maxTriggerDelay", default_ms=DEFAULT_MAX_TRIGGER_DELAY_MS),
        max_bytes_per_trigger=max_bytes,
        small_batch_offsets=_small_batch_offsets(options),
        checkpoint_location=options.text("checkpointLocation") if kind is QueryKind.STREAM else None,
        group_id=group_id,
        pin_retention_ms=_pin_retention_ms(options, kind, group_id),
        fetch_offset_attempt_count=options.integer("fetchOffset.numRetries", minimum=1, maximum=MAX_INTEGER) or 3,
        fetch_offset_retry_interval_ms=_retry_interval_ms(options),
        skips_unreadable_records=options.choice("onUnreadableRecord", ("fail", "skip"), default="fail") == "skip",
        formats=source_formats(options, topic=_single_topic(subscription)),
        push_filters=PushFilters(options.choice("pushFilters", [each.value for each in PushFilters], default="auto")),
        ignored=_ignored(options),
    )
    options.finish()
    check_start_against_end(starting, ending)
    return parsed


def _subscription(options: OptionReader) -> Subscription:
    nothing = SubscribeTopics(topics=frozenset())
    named, pattern, assigned = (options.text(name) for name in ("subscribe", "subscribePattern", "assign"))
    if sum(value is not None for value in (named, pattern, assigned)) != 1:
        options.complain("exactly one of subscribe, subscribePattern and assign must be set")
        return nothing
    if named is not None:
        topics = frozenset(name.strip() for name in named.split(",")) - {""}
        if not topics:
            options.complain(f"subscribe names no topic: {named!r}")
        return SubscribeTopics(topics=topics)
    if pattern is not None:
        try:
            re.compile(pattern.strip())
        except (re.error, OverflowError, RecursionError) as error:
            options.complain(f"subscribePattern is not a regular expression: {pattern!r} ({error})")
        if not pattern.strip():
            options.complain("subscribePattern is empty")
        return SubscribePattern(pattern=pattern.strip())
    found = options.parsed("assign", partitions_from_json)
    return AssignPartitions(partitions=found or frozenset())


def _single_topic(subscription: Subscription) -> str | None:
    """The topic of a query that reads only one; its schemas have a default subject."""
    if isinstance(subscription, SubscribeTopics):
        topics = subscription.topics
    elif isinstance(subscription, AssignPartitions):
        topics = frozenset(tp.topic for tp in subscription.partitions)
    else:
        return None
    return next(iter(topics)) if len(topics) == 1 else None


def _offsets_per_trigger(options: OptionReader) -> tuple[int | None, int | None]:
    least = options.integer("minOffsetsPerTrigger", minimum=1)
    most = options.integer("maxOffsetsPerTrigger", minimum=1)
    if least is not None and most is not None and least > most:
        options.complain(f"minOffsetsPerTrigger ({least}) is higher than maxOffsetsPerTrigger ({most})")
    return least, most


def _partition_counts(options: OptionReader) -> tuple[int | None, int | None]:
    """(least, most) Spark partitions."""
    least = options.integer("minPartitions", minimum=1, maximum=MAX_INTEGER)
    most = options.integer("maxPartitions", minimum=1, maximum=MAX_INTEGER)
    if most is not None and least is not None and least > most:
        options.complain(f"minPartitions ({least}) is higher than maxPartitions ({most})")
    if most is not None and options.text("maxRecordsPerPartition") is not None:
        options.complain("maxPartitions and maxRecordsPerPartition cannot be combined: set one of them")
    return least, most


def _small_batch_offsets(options: OptionReader) -> int:
    given = options.integer("smallBatchOffsets", minimum=0, maximum=MAX_INTEGER)
    return DEFAULT_SMALL_BATCH_OFFSETS if given is None else given


def _warn_of_limits_in_a_batch(options: OptionReader, kind: QueryKind) -> None:
    if kind is QueryKind.BATCH:
        for name in (
            "minOffsetsPerTrigger",
            "maxOffsetsPerTrigger",
            "maxBytesPerTrigger",
            "maxTriggerDelay",
            "smallBatchOffsets",
        ):
            if options.text(name) is not None:
                logger.warning("The option %s is ignored in batch queries", name)


def _group_id(options: OptionReader, kind: QueryKind) -> str | None:
    """Refused in a batch: a user who expects stored progress there would read all records again each time."""
    if kind is QueryKind.BATCH:
        options.refuse(
            "groupId",
            "is for streaming queries: a batch query stores no progress (use startingOffsets=group:<id> to start at "
            "a group's committed offsets)",
        )
        return None
    given = options.text("groupId")
    if given is None:
        return None
    group_id = given.strip()
    if not group_id:
        options.complain("groupId is empty")
    for prefix in OWN_GROUP_PREFIXES:
        if group_id.startswith(prefix):
            options.complain(f"groupId must not begin with {prefix}: the connector stores its own state in such groups")
    return group_id


def _pin_retention_ms(options: OptionReader, kind: QueryKind, group_id: str | None) -> int | None:
    if kind is QueryKind.BATCH:
        options.refuse("pinRetention", "is for streaming queries: a batch query reads all its records at once")
        return None
    if options.text("pinRetention") is None:
        return None
    complaint_count = len(options.complaints)
    asked_ms = options.duration_ms("pinRetention", default_ms=MIN_PIN_RETENTION_MS)
    if not MIN_PIN_RETENTION_MS <= asked_ms <= MAX_PIN_RETENTION_MS and len(options.complaints) == complaint_count:
        options.complain("pinRetention must be a duration between 1s and 36500d")
    if group_id is None:
        options.complain("pinRetention needs groupId: the pin is stored with the group's offsets")
    return asked_ms


def _isolation(options: OptionReader) -> IsolationLevel:
    levels = {"read_committed": IsolationLevel.READ_COMMITTED, "read_uncommitted": IsolationLevel.READ_UNCOMMITTED}
    return levels[options.choice("kafka.isolation.level", tuple(levels), default="read_committed")]


def _retry_interval_ms(options: OptionReader) -> int:
    # A larger value is too large for sleep.
    given = options.integer("fetchOffset.retryIntervalMs", minimum=0, maximum=MAX_INTEGER)
    return 1000 if given is None else given


def _ignored(options: OptionReader) -> tuple[str, ...]:
    options.integer("kafkaConsumer.pollTimeoutMs", minimum=0)
    options.ignore("kafkaConsumer.pollTimeoutMs")
    options.ignore("groupIdPrefix")
    return ignored_options(options)


def _refuse_unsupported_options(options: OptionReader) -> None:
    if all(options.text(name) is None for name in ("subscribe", "subscribePattern", "assign")):
        options.refuse("topic", "is for writing: set subscribe to the topics to read")
    options.refuse(
        "kafka.auto.offset.reset",
        "is not supported: set startingOffsets to say where a new query starts; a restarted query continues from its"
        " checkpoint",
    )
    for side in ("key", "value"):
        options.refuse(
            f"kafka.{side}.deserializer",
            f"is not supported: set {side}Format to decode the column {side}; without it the column is binary",
        )
    options.refuse("kafka.enable.auto.commit", "is not supported: progress is stored in the query's checkpoint")
    options.refuse("kafka.interceptor.classes", "is not supported: interceptors could change the records that are read")
