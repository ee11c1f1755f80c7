"""The options of the sink, read once into a frozen value that travels to the tasks."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from broker_core.model.exceptions import InvalidTopicNameError
from broker_core.model.identifiers import CompressionType
from broker_core.model.limits import DEFAULT_WRITE_BATCH_BYTES, MAX_PARTITION_COUNT
from broker_core.model.topic_name import is_internal_topic, validate_topic_name
from broker_core.topic_producer import ProducerSettings
from spark_streamlog.options import MAX_INTEGER, LogTarget, OptionReader

COMPRESSION_LEVELS: Final = {
    CompressionType.GZIP: (-1, 9),
    CompressionType.LZ4: (1, 17),
    CompressionType.ZSTD: (-131072, 22),
}
"""Lowest and highest level, as Kafka's producers allow them."""

WITHOUT_EFFECT: Final = (
    "linger.ms", "buffer.memory", "retries", "retry.backoff.ms", "retry.backoff.max.ms", "request.timeout.ms",
    "delivery.timeout.ms", "max.block.ms", "metadata.max.age.ms", "metadata.max.idle.ms", "connections.max.idle.ms",
    "reconnect.backoff.ms", "reconnect.backoff.max.ms",
)  # fmt: skip
"""Settings about a network that is not there: accepted as numbers, so that a Kafka query's options can stay."""


class Delivery(enum.Enum):
    """What a row is promised. A later mode is added here, and chosen by the two writers."""

    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """`topic` is where all rows go; None: each row's column says it."""

    target: LogTarget
    topic: str | None
    new_topic_partition_count: int | None
    """Of a topic that the sink makes; None: the log's default."""
    delivery: Delivery
    producer: ProducerSettings


def parse_write_options(given: Mapping[str, str]) -> WriteOptions:
    """Raises STREAMLOG_INVALID_OPTIONS with all complaints."""
    options = OptionReader(given, role="sink")
    parsed = WriteOptions(
        target=options.log_target(),
        topic=_topic(options),
        new_topic_partition_count=options.integer("topic.partitions", minimum=1, maximum=MAX_PARTITION_COUNT),
        delivery=_delivery(options),
        producer=_producer_settings(options),
    )
    # Only the source has a use for it; one set of options may serve both.
    options.flag("includeHeaders", default=False)
    _check_settings_without_effect(options)
    _refuse_what_the_sink_owns(options)
    options.finish()
    return parsed


def _topic(options: OptionReader) -> str | None:
    """A name that no topic can have is refused here, before any task runs."""
    topic = options.text("topic")
    if topic is None:
        return None
    try:
        validate_topic_name(topic)
    except InvalidTopicNameError as trouble:
        options.complain(f"topic: {trouble}" if topic.strip() else "topic is empty")
    if is_internal_topic(topic):
        options.complain(f"topic: {topic!r} is internal: only the log itself writes to it")
    return topic


def _delivery(options: OptionReader) -> Delivery:
    if (options.text("delivery") or "").strip().lower() == "exactly-once":
        options.complain(
            "delivery=exactly-once is not available in this version: the sink writes at-least-once (after a failure, "
            "rows of the repeated batch can stand twice)"
        )
        return Delivery.AT_LEAST_ONCE
    return Delivery(options.choice("delivery", [mode.value for mode in Delivery], default=Delivery.AT_LEAST_ONCE.value))


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
    )


def _check_settings_without_effect(options: OptionReader) -> None:
    # An append to a directory returns when it is durable: as much as acks=all asks for.
    options.choice("kafka.acks", ("all", "-1", "1", "0"), default="all")
    options.text("kafka.client.id")
    options.integer("kafka.max.in.flight.requests.per.connection", minimum=1, maximum=5)
    for name in WITHOUT_EFFECT:
        options.integer(f"kafka.{name}", minimum=0)


def _refuse_what_the_sink_owns(options: OptionReader) -> None:
    for side in ("key", "value"):
        options.refuse(
            f"kafka.{side}.serializer",
            f"is not supported: the column {side} is written as it is, serialize it with DataFrame operations",
        )
    if options.flag("kafka.enable.idempotence", default=True) is False:
        options.complain("kafka.enable.idempotence cannot be switched off: the sink's producers are idempotent")
    options.refuse("kafka.transactional.id", "is not supported: the sink chooses its producers' ids itself")
    options.refuse("kafka.transaction.timeout.ms", "is not supported: the sink writes without transactions")
    options.refuse("kafka.interceptor.classes", "is not supported: interceptors could change what is written")
    options.refuse(
        "kafka.partitioner.class",
        "is not supported: give the column partition, or the rows go by murmur2 of their key",
    )
