"""`Cluster`: the interface of a log, the same for every door (embedded directory, remote brokers, object storage).

Raw record batches go in and out, never records: `broker_core.record.columns` converts them to Arrow columns and back.
All calls block. Errors are those of `broker_core.model.exceptions`.

Longer than 400 lines because it documents every call of every door.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol
from uuid import UUID

from broker_core.model.exceptions import OffsetOutOfRangeError
from broker_core.model.group_state import GroupState
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, ProducerIdAndEpoch, TopicPartition
from broker_core.model.limits import DEFAULT_TRANSACTION_TIMEOUT_MS
from broker_core.model.topic_settings import shown_topic_configs
from broker_core.model.transaction_state import TransactionState


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic. `configs` holds only the settings that were set; defaults are in `model.topic_config`. `leaderless`: the
    partitions that no broker led when it was asked; none in a directory or on object storage."""

    name: str
    topic_id: UUID
    partition_count: int
    configs: Mapping[str, str] = field(default_factory=dict)
    is_internal: bool = False
    leaderless: frozenset[int] = frozenset()

    def partitions(self) -> Iterator[TopicPartition]:
        return (TopicPartition(self.name, number) for number in range(self.partition_count))

    def with_shown_configs(self) -> TopicDescription:
        """The same with parsed settings, as a broker returns them; the metadata log keeps them as written."""
        return replace(self, configs=shown_topic_configs(self.configs)) if self.configs else self


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

    def is_nowhere_behind(self, other: PartitionBounds) -> bool:
        """Whether none of the four decreased since `other`."""
        return (
            self.log_start_offset >= other.log_start_offset
            and self.last_stable_offset >= other.last_stable_offset
            and self.high_watermark >= other.high_watermark
            and self.log_end_offset >= other.log_end_offset
        )

    def require(self, offset: int, topic_partition: TopicPartition) -> None:
        """Raises OffsetOutOfRangeError for an offset outside the log."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"{topic_partition}: offset {offset} is outside the log, which holds"
                f" [{self.log_start_offset}, {self.log_end_offset})",
                offset=offset,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndTimestamp:
    """The result of an offset lookup. `timestamp_ms` is -1 for a lookup that was not by time."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """Records of `producer_id` from `first_offset` up to its abort marker are hidden from read-committed readers."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedBatches:
    """Whole record batches in offset order, as stored; the first may begin below the requested offset.

    An empty `buffer`: the offset is at the readable end. `aborted_transactions` is empty for read-uncommitted.
    `next_offset` is the offset of the next fetch: the last batch's last offset plus one, or, with an empty buffer, the
    requested offset (or the end of a gap if only removed offsets lie before the readable end).
    """

    buffer: memoryview
    next_offset: int
    bounds: PartitionBounds
    aborted_transactions: tuple[AbortedTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """The offsets of an append. `log_append_time_ms` is -1 with create time. A recognised retry gets its first
    offsets."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int = -1
    is_duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentDescription:
    """One segment of a partition. `max_timestamp_ms` is -1 if no batch has one; `next_offset` is the next segment's
    base offset, or the log end; `path` is that of its .log file."""

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp_ms: int
    is_active: bool
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalProducer:
    """The producer of a transaction, from `init_producer` for a transactional id."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """The state of one transactional id. `start_time_ms` is -1 while no transaction is open.

    `partitions` are those of the open or ending transaction, internal ones included.
    """

    transactional_id: str
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """A group's committed offset in one partition. The log sets `commit_time_ms`; pass -1 in a commit."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    commit_time_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One member of a consumer group. `instance_id` is that of a static member; `partitions` is its assignment."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A consumer group. `assignor` is empty if nothing is assigned."""

    group_id: str
    state: GroupState
    assignor: str = ""
    members: tuple[GroupMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRanges:
    """The parts of a range of offsets that may hold records with one key: ascending half-open ranges.

    `skipped_bytes` are the bytes of the segments that need not be read.
    """

    ranges: tuple[tuple[int, int], ...]
    skipped_bytes: int


class Cluster(Protocol):
    """A log. `describe_topics(None)` lists all topics, internal ones included."""

    def describe_topics(self, names: Collection[str] | None = None) -> dict[str, TopicDescription]:
        """By name; unknown names are missing from the result."""
        ...

    def create_topic(
        self, name: str, *, partition_count: int | None = None, configs: Mapping[str, str] | None = None
    ) -> TopicDescription:
        """Durable when it returns. Raises InvalidTopicNameError, TopicExistsError, InvalidPartitionsError and
        InvalidConfigError."""
        ...

    def auto_creates_topics(self) -> bool | None:
        """Whether a write creates a missing topic: always in a directory, at brokers according to
        auto.create.topics.enable. None: this user may not read that setting."""
        ...

    def delete_topic(self, name: str) -> None: ...

    def create_partitions(self, name: str, total_count: int) -> TopicDescription: ...

    def alter_topic_configs(self, name: str, changes: Mapping[str, str | None]) -> TopicDescription:
        """None resets a setting to its default."""
        ...

    def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The offset for a spec, or for a timestamp in ms (any int >= 0): the first record at or after it, else None.

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
        topic_id: UUID | None = None,
    ) -> FetchedBatches:
        """Batches from the one that holds `from_offset` on; at least one whole batch, even above `max_bytes`.

        With `topic_id` raises UnknownTopicError, or TopicRecreatedError, if it is not the topic's id any more.

        Raises OffsetOutOfRangeError below the log start or above the log end, CorruptBatchError with file and position.
        """
        ...

    def append(self, partition: TopicPartition, batches: bytearray, *, topic_id: UUID | None = None) -> AppendResult:
        """Appends one or more v2 batches, all or none; writes offsets and leader epoch into `batches` in place.

        With `topic_id` raises UnknownTopicError, or TopicRecreatedError, if it is not the topic's id any more.

        Returns when they are durable (with flush.policy=batch). Raises RecordTooLargeError, InvalidRecordError,
        CorruptBatchError, OutOfOrderSequenceError, ProducerFencedError, DiskFullError.
        """
        ...

    def delete_records(self, partition: TopicPartition, before_offset: int) -> int:
        """Increases the log start offset; -1 means the high watermark. Returns the new log start offset."""
        ...

    def describe_segments(self, partition: TopicPartition) -> tuple[SegmentDescription, ...]:
        """In offset order, the active segment last. Sizes count published bytes."""
        ...

    # -- splitting ranges: by bytes, by key --

    def find_offset_within_bytes(
        self, partition: TopicPartition, from_offset: int, until_offset: int, max_bytes: int
    ) -> int:
        """The end offset of the batches from `from_offset` on that fit into `max_bytes`, at most `until_offset`.

        At least one whole batch, even above `max_bytes`. A `from_offset` in the middle of a batch counts the whole one.
        """
        ...

    def bytes_between(self, partition: TopicPartition, from_offset: int, until_offset: int) -> int:
        """Bytes of the batches in a range of offsets, by the offset index: exact to one index interval at each end."""
        ...

    def ranges_with_key(
        self, partition: TopicPartition, key: bytes | None, from_offset: int, until_offset: int
    ) -> KeyRanges:
        """Ranges that may hold a record with this key; the whole range if there is no key filter.

        None means records without a key.
        """
        ...

    # -- producers and transactions --

    @property
    def ends_together(self) -> bool:
        """Whether transactions that end together are decided atomically: true for a directory, false for brokers.

        At a broker, a process that dies in between leaves some of them open, for others to end in the same way.
        """
        ...

    def init_producer(
        self,
        transactional_id: str | None = None,
        *,
        timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS,
        is_two_phase: bool = False,
    ) -> ProducerIdAndEpoch:
        """Without a transactional id: a new producer id for an idempotent producer.

        With one: fences every earlier producer of that id, aborts its open transaction and waits until that is done.
        `is_two_phase`: its transactions never time out. Raises InvalidTransactionTimeoutError.
        """
        ...

    def add_partitions_to_transaction(
        self, producer: TransactionalProducer, partitions: Collection[TopicPartition]
    ) -> None:
        """Call it before the first append to each of the partitions. Opens the transaction if none is open.

        Raises ProducerFencedError, UnknownTransactionalIdError, InvalidProducerIdMappingError and
        ConcurrentTransactionsError.
        """
        ...

    def commit_offsets_in_transaction(
        self, producer: TransactionalProducer, group_id: str, offsets: Mapping[TopicPartition, GroupOffset]
    ) -> None:
        """Offsets that are committed with the transaction, and dropped if it aborts."""
        ...

    def end_transaction(
        self,
        producer: TransactionalProducer,
        *,
        commit: bool,
        together_with: Sequence[TransactionalProducer] = (),
    ) -> None:
        """Commits or aborts the open transactions of all these producers. Returns when every marker is written.

        Embedded, the decision for all of them is one append: all are ended or none, even after a crash. At a broker the
        first one is decided first, the others after it. Repeating the same end is harmless, and so is an abort without
        an open transaction; either way the producer must be initialised again before its next transaction. Raises
        ProducerFencedError, UnknownTransactionalIdError, InvalidProducerIdMappingError, InvalidTransactionStateError (a
        transaction to commit is not open, or was ended the other way); then nothing is ended.
        """
        ...

    def abort_transaction(self, transactional_id: str) -> bool:
        """For administrators and the next instance: fences the producer and aborts its open transaction.

        False if none was open. Raises UnknownTransactionalIdError.
        """
        ...

    def describe_transactions(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription]:
        """By id; unknown ids are missing from the result."""
        ...

    def list_transactions(
        self, *, prefix: str = "", states: Collection[TransactionState] | None = None
    ) -> tuple[TransactionDescription, ...]:
        """The transactions whose id begins with `prefix`, ordered by id."""
        ...

    # -- consumer groups --

    def list_groups(self) -> tuple[str, ...]:
        """Ids of the groups that have committed offsets, ordered."""
        ...

    def describe_group(self, group_id: str) -> GroupDescription:
        """The group's state and members; DEAD if it does not exist. A client that only commits is not a member.

        Groups of a directory without a broker have no members; in a real Kafka's directory the state is UNKNOWN.
        """
        ...

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, GroupOffset],
        *,
        topic_ids: Mapping[str, UUID] | None = None,
    ) -> None:
        """Durable when it returns. `topic_ids`: the topics that the offsets belong to, by name; raises
        TopicRecreatedError if one has another id by now. Raises InvalidGroupError, OffsetMetadataTooLargeError."""
        ...

    def fetch_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, GroupOffset]:
        """Committed offsets, of all partitions with None; partitions without one are missing from the result.

        Offsets in a transaction that is still open are not committed.
        """
        ...

    def delete_group(self, group_id: str) -> None:
        """Deletes the group's offsets. Raises UnknownGroupError."""
        ...

    def close(self) -> None: ...
