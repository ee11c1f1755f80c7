"""Writes Arrow columns to a `Cluster` as record batches.

    add(topic, columns) ──► gathered until `gather_bytes` ──► partition ──► group ──► encode ──► Cluster.append

Columns come as a pyarrow RecordBatch with `value` and optionally `key`, `headers`, `timestamp` and
`partition`; see `record.columns.encode` for their types. No Python object is made per record.

A partition's rows keep their order. The partition of a row is its `partition`, else murmur2 of its key, else (a null
key) the sticky partition, which changes with every round of writing.

Delivery: the producer is idempotent. It requests its id before the first append, and every partition's batches have
ascending sequences. `flush` returns once all added rows are durable. All batches of one round are encoded and measured
before the first is appended, so a record that is too large fails its whole round; earlier rounds stay written.

With a `ProducerTransaction` all rows are in one transaction. The producer does not open it before there are rows, and
does not end it. The new partitions of a round are added to it together, before the round's first append.

After an exception the producer cannot be used any more: buffered rows are dropped.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from broker_core.cluster import Cluster, TopicDescription, TransactionalProducer
from broker_core.model.exceptions import (
    InvalidTopicNameError,
    RecordTooLargeError,
    TopicExistsError,
    TopicNotCreatedError,
    TopicRecreatedError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import CompressionType, ProducerIdAndEpoch, TopicPartition
from broker_core.model.limits import DEFAULT_WRITE_BATCH_BYTES
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_reader import iter_headers
from broker_core.record.columns import EncodedBatches, Producer, encode, group_rows, partition_rows
from broker_core.record.expired_rows import ExpiredRows, expired_rows

DEFAULT_GATHER_BYTES: Final = 8 * 1024 * 1024
"""Arrow bytes of one round: enough to make a sync per partition cheap, but small enough for a worker's memory."""

_BATCH_OVERHEAD_BYTES: Final = 256
"""Room for a batch's header when batches are kept below a topic's max.message.bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How rows are encoded. A topic's `compression.type` overrides `compression`, as in a broker."""

    compression: CompressionType = CompressionType.NONE
    compression_level: int | None = None
    max_batch_bytes: int = DEFAULT_WRITE_BATCH_BYTES
    max_request_bytes: int | None = None
    """Larger batches are refused, even if the topic allows them; Kafka's producers call it max.request.size."""
    gather_bytes: int = DEFAULT_GATHER_BYTES
    ignores_keys: bool = False
    """Rows with a key are partitioned like those without; Kafka's producers call it partitioner.ignore.keys."""


class BatchTarget(Protocol):
    """The target of encoded batches: a `Cluster`, or one task's upload to object storage
    (`staged_writes.StagedUpload`)."""

    def init_producer(self) -> ProducerIdAndEpoch: ...

    def append(self, partition: TopicPartition, batches: bytearray, *, topic_id: UUID | None = None) -> object: ...


class ProducerTransaction(Protocol):
    """The transaction in which rows are written."""

    def begin(self) -> TransactionalProducer:
        """Returns the producer id. Called once, when there are rows to write."""
        ...

    def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Called before the first append to each partition; never with an empty list."""
        ...


@dataclass(slots=True, kw_only=True)
class _Topic:
    """A topic while it is written to. `sticky` is the partition of null keys in the next round."""

    description: TopicDescription
    config: TopicConfig
    sticky: int
    gathered: list[Any]
    next_sequences: dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _EncodedPartition:
    topic: _Topic
    partition: int
    batches: EncodedBatches

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic.description.name, self.partition)


class TopicCreation(enum.Enum):
    """Whether a write creates a missing topic. The values of the sink's option topic.create."""

    AUTO = "auto"
    """If the log auto-creates topics: see `Cluster.auto_creates_topics`."""
    ALWAYS = "true"
    NEVER = "false"


def describe_or_create(
    cluster: Cluster,
    name: str,
    *,
    partition_count: int | None = None,
    configs: Mapping[str, str] | None = None,
    creation: TopicCreation = TopicCreation.AUTO,
) -> TopicDescription:
    """The topic, created if it is missing. Several processes may do so at once: the second one uses the existing topic.

    Raises TopicNotCreatedError if it is missing and must not be created.
    """
    found = cluster.describe_topics([name]).get(name)
    if found is not None:
        return found
    _require_creation(cluster, name, creation)
    try:
        return cluster.create_topic(name, partition_count=partition_count, configs=configs)
    except TopicExistsError:
        return describe_existing(cluster, name)


def _require_creation(cluster: Cluster, name: str, creation: TopicCreation) -> None:
    if creation is TopicCreation.ALWAYS:
        return
    if creation is TopicCreation.NEVER:
        reason = "topic.create is false"
    else:
        is_allowed = cluster.auto_creates_topics()
        if is_allowed:
            return
        reason = (
            "this user cannot read whether the brokers auto-create topics (auto.create.topics.enable)"
            if is_allowed is None
            else "the brokers do not auto-create topics (auto.create.topics.enable is false)"
        )
    raise TopicNotCreatedError(f"Topic '{name}' does not exist, and {reason}: create it first", topic=name)


def describe_existing(cluster: Cluster, name: str) -> TopicDescription:
    """The topic. Raises UnknownTopicError."""
    found = cluster.describe_topics([name]).get(name)
    if found is None:
        raise UnknownTopicError(f"topic {name!r} does not exist", topic=name)
    return found


class TopicProducer:
    """Writes rows to one or more topics. Not thread-safe.

    `find_topic` returns the topic of a name, and is called once per name: `describe_or_create`, `describe_existing` or
    a mix. `first_partition` spreads null keys if many producers write a little each: pass a different number to each.
    `transaction`: all rows are written in it."""

    def __init__(
        self,
        target: BatchTarget,
        *,
        find_topic: Callable[[str], TopicDescription],
        now_ms: Callable[[], int],
        settings: ProducerSettings | None = None,
        first_partition: int = 0,
        transaction: ProducerTransaction | None = None,
    ) -> None:
        self._target = target
        self._transaction = transaction
        self._find_topic = find_topic
        self._now_ms = now_ms
        self._settings = settings or ProducerSettings()
        self._first_partition = first_partition
        self._identity: ProducerIdAndEpoch | TransactionalProducer | None = None
        self._partitions_in_transaction: set[TopicPartition] = set()
        self._topics: dict[str, _Topic] = {}
        self._gathered_bytes = 0
        self.appended_record_count = 0
        """The count of durable records."""
        self.expired: dict[str, ExpiredRows] = {}
        """By topic: rows that it may delete as soon as they are written."""

    @property
    def holds_rows(self) -> bool:
        """Whether `flush` has something to write."""
        return self._gathered_bytes > 0

    def add(self, topic: str, columns: Any) -> None:
        """Adds the rows of a RecordBatch, and writes a round if enough rows are gathered."""
        state = self._topics.get(topic) or self._begin_topic(topic)
        for piece in _pieces(columns, self._settings.gather_bytes):
            if self._gathered_bytes + piece.nbytes > self._settings.gather_bytes:
                self.flush()
            state.gathered.append(piece)
            self._gathered_bytes += piece.nbytes

    def flush(self) -> None:
        """Writes the gathered rows; all rows added so far are durable when it returns."""
        encoded: list[_EncodedPartition] = []
        for topic in self._topics.values():
            if topic.gathered:
                encoded.extend(self._encode_round(topic))
                topic.gathered = []
        self._gathered_bytes = 0
        self._add_to_transaction([part.topic_partition for part in encoded])
        for part in encoded:
            self._append(part)
            part.topic.next_sequences[part.partition] = part.batches.next_sequence
            self.appended_record_count += part.batches.record_count

    def _append(self, part: _EncodedPartition) -> None:
        name = part.topic_partition.topic
        try:
            self._target.append(part.topic_partition, part.batches.buffer, topic_id=part.topic.description.topic_id)
        except (TopicRecreatedError, UnknownPartitionError) as error:
            # It was found with the partition, and a topic never loses one.
            raise TopicRecreatedError(
                f"topic {name!r} was deleted and created again during the write",
                topic=name,
                topic_id=part.topic.description.topic_id,
            ) from error
        except UnknownTopicError as error:
            raise UnknownTopicError(f"topic {name!r} was deleted during the write", topic=name) from error

    def _add_to_transaction(self, partitions: Collection[TopicPartition]) -> None:
        added = set(partitions) - self._partitions_in_transaction
        if self._transaction is not None and added:
            self._transaction.add_partitions(sorted(added))
            self._partitions_in_transaction |= added

    def _begin_topic(self, name: str) -> _Topic:
        description = self._find_topic(name)
        if description.is_internal:
            raise InvalidTopicNameError(f"topic {name!r} is internal: only streamlog itself writes to it", topic=name)
        topic = _Topic(
            description=description,
            config=TopicConfig.from_stored(description.configs),
            sticky=self._first_partition % description.partition_count,
            gathered=[],
            next_sequences={},
        )
        self._topics[name] = topic
        return topic

    def _encode_round(self, topic: _Topic) -> list[_EncodedPartition]:
        columns = topic.gathered[0] if len(topic.gathered) == 1 else pa.concat_batches(topic.gathered)
        self._note_expired(topic, columns)
        encoded = [
            _EncodedPartition(topic=topic, partition=partition, batches=self._encode(topic, partition, columns, rows))
            for partition, rows in _rows_by_partition(topic, columns, ignores_keys=self._settings.ignores_keys)
        ]
        topic.sticky = (topic.sticky + 1) % topic.description.partition_count
        limit_bytes, setting = self._limit(topic)
        for part in encoded:
            _refuse_too_large(part, limit_bytes, setting)
        return encoded

    def _note_expired(self, topic: _Topic, columns: Any) -> None:
        found = expired_rows(columns, topic.config, now_ms=self._now_ms())
        if found is not None:
            name = topic.description.name
            self.expired[name] = self.expired[name] + found if name in self.expired else found

    def _limit(self, topic: _Topic) -> tuple[int, str]:
        """(bytes of the largest allowed batch, the setting with that limit)."""
        asked = self._settings.max_request_bytes
        if asked is not None and asked < topic.config.max_message_bytes:
            return asked, "the producer setting max.request.size"
        return topic.config.max_message_bytes, "the topic setting max.message.bytes"

    def _encode(self, topic: _Topic, partition: int, columns: Any, rows: Any) -> EncodedBatches:
        if self._identity is None:
            self._identity = self._transaction.begin() if self._transaction else self._target.init_producer()
        compression, level = _codec(topic.config, self._settings)
        return encode(
            columns,
            rows=rows,
            compression=compression,
            level=level,
            max_batch_bytes=max(1, min(self._settings.max_batch_bytes, self._limit(topic)[0] - _BATCH_OVERHEAD_BYTES)),
            default_timestamp_ms=self._now_ms(),
            producer=Producer(
                producer_id=self._identity.producer_id,
                producer_epoch=self._identity.producer_epoch,
                base_sequence=topic.next_sequences.get(partition, 0),
            ),
            is_transactional=self._transaction is not None,
        )


def _pieces(columns: Any, gather_bytes: int) -> list[Any]:
    """The batch, or slices of it of about the size of a round."""
    if columns.num_rows == 0:
        return []
    count = min(columns.num_rows, -(-columns.nbytes // gather_bytes)) or 1
    length = -(-columns.num_rows // count)
    return [columns.slice(start, length) for start in range(0, columns.num_rows, length)]


def _rows_by_partition(topic: _Topic, columns: Any, *, ignores_keys: bool) -> list[tuple[int, Any]]:
    """(partition, the indices of its rows in order); None for all rows."""
    names = columns.schema.names
    count = topic.description.partition_count
    explicit = columns.column("partition") if "partition" in names else None
    if explicit is not None and explicit.null_count == len(explicit):
        explicit = None
    key = columns.column("key") if "key" in names and not ignores_keys else None
    if key is not None and key.null_count == len(key):
        key = None
    if explicit is not None:
        _refuse_unknown_partition(topic.description, explicit)
    if count == 1 or (key is None and explicit is None):
        return [(topic.sticky, None)]
    partitions = partition_rows(
        columns.num_rows, partition_count=count, sticky=topic.sticky, key=key, explicit=explicit
    )
    return [(partition, rows) for partition, rows in enumerate(group_rows(partitions, count)) if len(rows)]


def _refuse_unknown_partition(topic: TopicDescription, explicit: Any) -> None:
    bounds = pc.min_max(explicit)
    lowest, highest = bounds["min"].as_py(), bounds["max"].as_py()
    if lowest < 0 or highest >= topic.partition_count:
        asked = lowest if lowest < 0 else highest
        raise UnknownPartitionError(
            f"the column 'partition' of a row has partition {asked}, but topic {topic.name!r} has the "
            f"partitions 0 to {topic.partition_count - 1}. Rows that were read from another topic keep "
            'its partitions: drop the column with df.drop("partition") to partition by key, or add '
            "partitions",
            topic=topic.name,
            partition=asked,
        )


def _codec(config: TopicConfig, settings: ProducerSettings) -> tuple[CompressionType, int | None]:
    if config.codec is None:
        return settings.compression, settings.compression_level
    return config.codec, config.compression_level(config.codec)


def _refuse_too_large(part: _EncodedPartition, limit_bytes: int, setting: str) -> None:
    """Only a batch of a single record can be above the limit: `encode` keeps the others below it."""
    if len(part.batches.buffer) <= limit_bytes:
        return
    for _, header in iter_headers(part.batches.buffer):
        if header.size_bytes > limit_bytes:
            name = part.topic.description.name
            raise RecordTooLargeError(
                f"a record for topic {name!r} needs a batch of {header.size_bytes} bytes, above the limit of "
                f"{limit_bytes}; {setting} raises the limit",
                topic=name,
                size_bytes=header.size_bytes,
                limit_bytes=limit_bytes,
                setting=setting,
            )
