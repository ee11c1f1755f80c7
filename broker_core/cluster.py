"""`Cluster`: what any user of a log needs, the same for both doors (embedded directory, remote broker).

Raw record batches go in and out, never records: `broker_core.record.columns` turns them into Arrow columns and back.
All calls block. Errors are those of `broker_core.model.exceptions`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from broker_core.model.identifiers import IsolationLevel, OffsetSpec, ProducerIdAndEpoch, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic as the metadata log knows it. `configs` holds only what was set; defaults are in `model.topic_config`."""

    name: str
    topic_id: UUID
    partition_count: int
    configs: Mapping[str, str] = field(default_factory=dict)
    is_internal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBounds:
    """The bounds of one partition at one instant.

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
    """

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int

    def readable_end(self, isolation: IsolationLevel) -> int:
        """First offset that a reader at this isolation level may not see."""
        return self.last_stable_offset if isolation is IsolationLevel.READ_COMMITTED else self.high_watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndTimestamp:
    """Answer of an offset look-up. `timestamp_ms` is -1 where the question was not about time."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """Records of `producer_id` from `first_offset` up to its abort marker are hidden from read-committed readers."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedBatches:
    """Whole record batches in offset order, as stored; the first may begin below the offset that was asked for.

    `buffer` may be empty: the offset is at the readable end. `aborted_transactions` is empty for read-uncommitted.
    `next_offset` is where the next fetch goes on: the last batch's last offset plus one, or, with an empty buffer, the
    offset that was asked for (or the end of a gap when only removed offsets lie before the readable end).
    """

    buffer: memoryview
    next_offset: int
    bounds: PartitionBounds
    aborted_transactions: tuple[AbortedTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """Where an append landed. `log_append_time_ms` is -1 with create time. A recognised retry gets its offsets."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int = -1
    is_duplicate: bool = False


class Cluster(Protocol):
    """A log that somebody keeps. `describe_topics(None)` lists all topics, internal ones included."""

    def describe_topics(self, names: Collection[str] | None = None) -> dict[str, TopicDescription]:
        """By name; names that do not exist are missing from the answer."""
        ...

    def create_topic(
        self, name: str, *, partition_count: int | None = None, configs: Mapping[str, str] | None = None
    ) -> TopicDescription:
        """Durable when it returns. Raises InvalidTopicNameError, TopicExistsError, InvalidPartitionsError and
        InvalidConfigError.
        """
        ...

    def delete_topic(self, name: str) -> None: ...

    def create_partitions(self, name: str, total_count: int) -> TopicDescription: ...

    def alter_topic_configs(self, name: str, changes: Mapping[str, str | None]) -> TopicDescription:
        """None puts a setting back to its default."""
        ...

    def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Offset for a spec, or for a timestamp in ms (any int >= 0): the first record at or after it, None if none is.

        LATEST is the high watermark, or the last stable offset when read-committed. Raises UnknownTopicError and
        UnknownPartitionError.
        """
        ...

    def bounds(self, partition: TopicPartition) -> PartitionBounds: ...

    def fetch(
        self,
        partition: TopicPartition,
        from_offset: int,
        *,
        max_bytes: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> FetchedBatches:
        """Batches from the one that holds `from_offset`; at least one whole batch even above `max_bytes`.

        Raises OffsetOutOfRangeError below the log start or above the log end, CorruptBatchError with file and position.
        """
        ...

    def append(self, partition: TopicPartition, batches: bytearray) -> AppendResult:
        """One or more v2 batches, all or none of them; offsets and leader epoch are written into `batches` in place.

        Returns when they are durable (with flush.policy=batch). Raises RecordTooLargeError, InvalidRecordError,
        CorruptBatchError, OutOfOrderSequenceError, ProducerFencedError, DiskFullError.
        """
        ...

    def delete_records(self, partition: TopicPartition, before_offset: int) -> int:
        """Moves the log start offset up; -1 means the high watermark. Returns the new log start offset."""
        ...

    def init_producer(self) -> ProducerIdAndEpoch:
        """A fresh id for an idempotent producer."""
        ...

    def close(self) -> None: ...
