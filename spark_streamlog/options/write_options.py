"""The options of the sink, read once into a frozen value that travels to the tasks."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker_core.model.exceptions import InvalidConfigError, InvalidTopicNameError
from broker_core.model.identifiers import CompressionType
from broker_core.model.limits import (
    DEFAULT_WRITE_BATCH_BYTES,
    MAX_APPLICATION_ID_CHARACTERS,
    MAX_EMBEDDED_TRANSACTION_TIMEOUT_MS,
    MAX_PARTITION_COUNT,
    MAX_TRANSACTION_TIMEOUT_MS,
)
from broker_core.model.topic_config import TopicConfig
from broker_core.model.topic_name import is_internal_topic, validate_topic_name
from broker_core.topic_producer import ProducerSettings, TopicCreation
from spark_streamlog.options.format_options import sink_formats
from spark_streamlog.options.ignored_options import TOPIC_CONFIG_PREFIX, ignored_options
from spark_streamlog.options.option_reader import MAX_INTEGER, LogTarget, OptionReader, QueryKind
from spark_streamlog.serde.format_settings import RecordFormats

COMPRESSION_LEVELS: Final = {
    CompressionType.GZIP: (-1, 9),
    CompressionType.LZ4: (1, 17),
    CompressionType.ZSTD: (-131072, 22),
}
"""Lowest and highest level, as Kafka's producers allow them."""


class Delivery(enum.Enum):
    """The delivery guarantee."""

    EXACTLY_ONCE = "exactly-once"
    """All rows of a batch become readable together at its commit, and exactly once."""
    AT_LEAST_ONCE = "at-least-once"
    """Rows are readable as soon as they are written; a repeated batch or task writes its rows again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationVersion:
    """Delta's pair `txnAppId` and `txnVersion`: a version not above the application's last one writes nothing."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopics:
    """How a missing topic is created. None and no settings: with the log's defaults."""

    creation: TopicCreation
    partition_count: int | None
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """`topic` is the topic of all rows; None: the column `topic` of each row."""

    target: LogTarget
    topic: str | None
    new_topics: NewTopics
    delivery: Delivery
    application: ApplicationVersion | None
    """Only for a batch write."""
    transaction_timeout_ms: int
    checkpoint_location: str | None
    """As Spark passes it; None also if it is set for the whole session."""
    producer: ProducerSettings
    formats: RecordFormats
    ignored: tuple[str, ...]
    """Options of the user that are ignored."""


def parse_write_options(given: Mapping[str, str], kind: QueryKind) -> WriteOptions:
    """Raises STREAMLOG_INVALID_OPTIONS with all complaints."""
    options = OptionReader(given, role="sink")
    delivery = _delivery(options)
    topic = _topic(options)
    _refuse_unsupported_options(options, topic)
    parsed = WriteOptions(
        target=options.log_target(),
        topic=topic,
        new_topics=_new_topics(options),
        delivery=delivery,
        application=_application(options, kind, delivery),
        transaction_timeout_ms=_transaction_timeout_ms(options, delivery),
        checkpoint_location=options.text("checkpointLocation") if kind is QueryKind.STREAM else None,
        producer=_producer_settings(options),
        formats=sink_formats(options, topic=topic),
        ignored=_ignored(options),
    )
    options.finish()
    return parsed


def _topic(options: OptionReader) -> str | None:
    """A name that no topic can have is refused here, before any task runs."""
    topic = options.text("topic")
    if topic is None:
        return None
    try:
        validate_topic_name(topic)
    except InvalidTopicNameError as error:
        options.complain(f"topic: {error}" if topic.strip() else "topic is empty")
    if is_internal_topic(topic):
        options.complain(f"topic: {topic!r} is an internal topic: only the log itself can write to it")
    return topic


def _new_topics(options: OptionReader) -> NewTopics:
    creation = TopicCreation(options.choice("topic.create", [each.value for each in TopicCreation], default="auto"))
    count = options.integer("topic.partitions", minimum=1, maximum=MAX_PARTITION_COUNT)
    configs = options.texts_behind(TOPIC_CONFIG_PREFIX)
    try:
        TopicConfig.from_strings(configs)
    except InvalidConfigError as error:
        options.complain(f"{TOPIC_CONFIG_PREFIX}*: {error.message}")
    if creation is TopicCreation.NEVER:
        for name in ("topic.partitions", *(TOPIC_CONFIG_PREFIX + each for each in sorted(configs))):
            options.ignore(name)
    return NewTopics(creation=creation, partition_count=count, configs=configs)


def _delivery(options: OptionReader) -> Delivery:
    return Delivery(options.choice("delivery", [mode.value for mode in Delivery], default=Delivery.EXACTLY_ONCE.value))


def _application(options: OptionReader, kind: QueryKind, delivery: Delivery) -> ApplicationVersion | None:
    app_id = options.text("txnAppId")
    version = options.integer("txnVersion", minimum=0)
    if app_id is None and options.text("txnVersion") is None:
        return None
    if kind is QueryKind.STREAM:
        options.complain(
            "txnAppId and txnVersion are for batch writes, including those in foreachBatch: a stream uses its own "
            "query id and batch ids"
        )
    elif app_id is None or options.text("txnVersion") is None:
        options.complain("txnAppId and txnVersion must be set together")
    elif delivery is not Delivery.EXACTLY_ONCE:
        options.complain("txnAppId and txnVersion need delivery=exactly-once")
    if app_id is None or version is None:
        return None
    if not app_id.strip() or len(app_id) > MAX_APPLICATION_ID_CHARACTERS:
        options.complain(
            f"txnAppId must have 1 to {MAX_APPLICATION_ID_CHARACTERS} characters and must not be blank; it has "
            f"{len(app_id)} characters"
        )
    return ApplicationVersion(app_id=app_id, version=version)


def _transaction_timeout_ms(options: OptionReader, delivery: Delivery) -> int:
    # The default of Kafka's producers is one minute; here a transaction waits for the slowest task of its batch.
    longest_ms = MAX_EMBEDDED_TRANSACTION_TIMEOUT_MS
    given = options.integer("kafka.transaction.timeout.ms", minimum=1, maximum=longest_ms)
    if delivery is Delivery.AT_LEAST_ONCE:
        options.ignore("kafka.transaction.timeout.ms")
    return MAX_TRANSACTION_TIMEOUT_MS if given is None else given


def _producer_settings(options: OptionReader) -> ProducerSettings:
    names = [codec.name.lower() for codec in CompressionType]
    codec = CompressionType[options.choice("kafka.compression.type", names, default="none").upper()]
    levels = {}
    for leveled, (lowest, highest) in COMPRESSION_LEVELS.items():
        name = f"kafka.compression.{leveled.name.lower()}.level"
        levels[leveled] = options.integer(name, minimum=lowest, maximum=highest)
        if leveled is CompressionType.GZIP and levels[leveled] == 0:
            options.complain(f"{name} must be -1 or from 1 to 9, not 0")
    batch_bytes = options.integer("kafka.batch.size", minimum=0, maximum=MAX_INTEGER)
    return ProducerSettings(
        compression=codec,
        compression_level=levels.get(codec),
        max_batch_bytes=DEFAULT_WRITE_BATCH_BYTES if batch_bytes is None else max(1, batch_bytes),
        max_request_bytes=options.integer("kafka.max.request.size", minimum=0, maximum=MAX_INTEGER),
        ignores_keys=options.flag("kafka.partitioner.ignore.keys", default=False),
    )


def _ignored(options: OptionReader) -> tuple[str, ...]:
    # Every append waits until it is durable on all in-sync replicas, which is what acks=all requests.
    if options.choice("kafka.acks", ("all", "-1", "1", "0"), default="all") in ("1", "0"):
        options.ignore("kafka.acks")
    options.integer("kafka.max.in.flight.requests.per.connection", minimum=1, maximum=5)
    options.ignore("kafka.max.in.flight.requests.per.connection")
    return ignored_options(options)


def _refuse_unsupported_options(options: OptionReader, topic: str | None) -> None:
    for name in ("subscribe", "subscribePattern", "assign"):
        # Next to `topic` it is an option of the source, and ignored; alone it was meant as the topic.
        if topic is None:
            options.refuse(
                name,
                "is for reading: set the option topic to the topic to write to (for a view, in its OPTIONS), or add "
                "a column topic",
            )
    for side in ("key", "value"):
        options.refuse(
            f"kafka.{side}.serializer",
            f"is not supported: set {side}Format to serialize the column {side}; without it the column is written "
            "unchanged",
        )
    if options.flag("kafka.enable.idempotence", default=True) is False:
        options.complain("kafka.enable.idempotence cannot be false: the sink's producers are always idempotent")
    if options.flag("kafka.transaction.two.phase.commit.enable", default=False):
        options.complain(
            "kafka.transaction.two.phase.commit.enable is not supported: after a crash the transactions of a query "
            "that is not restarted would block readers forever"
        )
    options.refuse("kafka.transactional.id", "is not supported: the sink chooses the ids of its producers")
    options.refuse(
        "kafka.interceptor.classes", "is not supported: interceptors could change the records that are written"
    )
    options.refuse(
        "kafka.partitioner.class",
        "is not supported: add a column partition, or let the murmur2 hash of the key choose the partition",
    )
