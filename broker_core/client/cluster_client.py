"""`Cluster` at one or more brokers: blocking, over Kafka's wire protocol.

    cluster = open_remote(parse_client_settings({"bootstrap.servers": "localhost:9092"}))

Works with every cluster that supports the protocol of Kafka 3.0 or later. Thread-safe. A forked child may use the
client that it inherited; it opens connections of its own.

Differences from a directory:

- `bounds` and `fetch` return the high watermark as the log end;
- `append` of several batches makes each durable by itself: if one fails, those before it are written;
- `end_transaction` decides the first transaction, then the others;
- `bytes_between` and `find_offset_within_bytes` are estimated from samples, `ranges_with_key` excludes nothing;
- `list_groups` includes groups with members and no offset yet, and has no commit times;
- `describe_segments` is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from uuid import UUID

from broker_core.client.auto_creation import auto_creates_topics
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.group_description import describe_group
from broker_core.client.log_sampler import LogSampler
from broker_core.client.offset_lookup import OffsetLookup
from broker_core.client.partition_placements import PartitionPlacement, describe_placements
from broker_core.client.record_append import RecordAppend
from broker_core.client.record_deletion import delete_records
from broker_core.client.record_fetch import RecordFetch
from broker_core.client.remote_group_offsets import RemoteGroupOffsets
from broker_core.client.remote_transactions import RemoteTransactions
from broker_core.client.topic_admin import TopicAdmin
from broker_core.client.transaction_listing import TransactionListing
from broker_core.cluster import (
    AppendResult,
    FetchedBatches,
    GroupDescription,
    GroupOffset,
    KeyRanges,
    OffsetAndTimestamp,
    PartitionBounds,
    SegmentDescription,
    TopicDescription,
    TransactionalProducer,
    TransactionDescription,
)
from broker_core.model.client_settings import ClientSettings
from broker_core.model.exceptions import NotAvailableRemotelyError
from broker_core.model.fetch_start import FetchStart
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, ProducerIdAndEpoch, TopicPartition
from broker_core.model.limits import DEFAULT_TRANSACTION_TIMEOUT_MS
from broker_core.model.transaction_state import TransactionState


def open_remote(settings: ClientSettings) -> ClusterClient:
    """A client of a cluster. Nothing is sent before the first call."""
    return ClusterClient(settings)


class ClusterClient:
    """Implements `broker_core.cluster.Cluster`, which documents the methods.

    Every call may also raise BrokerUnavailableError, RequestTimedOutError, AuthenticationError, AuthorizationError,
    UnsupportedVersionError, MalformedMessageError and BrokerError.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._router = BrokerRouter(settings)
        self._topics = TopicAdmin(self._router)
        self._offsets = OffsetLookup(self._router)
        self._fetch = RecordFetch(self._router, self._offsets)
        self._append = RecordAppend(self._router)
        self._sampler = LogSampler(self._fetch)
        self._listing = TransactionListing(self._router)
        self._transactions = RemoteTransactions(self._router, self._listing)
        self._groups = RemoteGroupOffsets(self._router)

    @property
    def ends_together(self) -> bool:
        return False

    # -- topics --

    def describe_topics(self, names: Collection[str] | None = None) -> dict[str, TopicDescription]:
        return self._topics.describe(names)

    def create_topic(
        self, name: str, *, partition_count: int | None = None, configs: Mapping[str, str] | None = None
    ) -> TopicDescription:
        return self._topics.create(name, partition_count, configs or {})

    def create_replicated_topic(
        self,
        name: str,
        *,
        partition_count: int | None = None,
        replication_factor: int | None = None,
        assignments: Sequence[Sequence[int]] = (),
        configs: Mapping[str, str] | None = None,
    ) -> TopicDescription:
        """As `create_topic`. `assignments` has the replicas of each partition, the preferred leader first, and stands
        instead of both numbers."""
        return self._topics.create(
            name, partition_count, configs or {}, replication_factor=replication_factor, assignments=assignments
        )

    def placements(self, names: Collection[str] | None = None) -> list[PartitionPlacement]:
        """Leaders and replicas of the partitions of these topics, or of all. Raises UnknownTopicError."""
        return self._router.run(
            "describe partitions", lambda deadline: describe_placements(self._router, names, deadline)
        )

    def auto_creates_topics(self) -> bool | None:
        return auto_creates_topics(self._router)

    def delete_topic(self, name: str) -> None:
        self._topics.delete(name)

    def create_partitions(self, name: str, total_count: int) -> TopicDescription:
        return self._topics.create_partitions(name, total_count)

    def alter_topic_configs(self, name: str, changes: Mapping[str, str | None]) -> TopicDescription:
        return self._topics.alter_configs(name, changes)

    # -- partitions --

    def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._offsets.list_offsets(partitions, isolation)

    def bounds(self, partition: TopicPartition) -> PartitionBounds:
        return self._offsets.bounds(partition)

    def fetch(
        self,
        partition: TopicPartition,
        from_offset: int,
        *,
        max_bytes: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        topic_id: UUID | None = None,
    ) -> FetchedBatches:
        return self._fetch.fetch(partition, from_offset, max_bytes, isolation, topic_id)

    def fetch_several(
        self,
        starts: Mapping[TopicPartition, FetchStart],
        *,
        max_bytes: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, FetchedBatches]:
        """What one request to each leader brings of several partitions, `max_bytes` in all.

        A partition for which there is no whole batch, or any refusal, is missing from the answer: `fetch` says why.
        """
        return self._fetch.fetch_several(starts, max_bytes, isolation)

    def append(self, partition: TopicPartition, batches: bytearray, *, topic_id: UUID | None = None) -> AppendResult:
        return self._append.append(partition, batches, topic_id)

    def delete_records(self, partition: TopicPartition, before_offset: int) -> int:
        return delete_records(self._router, partition, before_offset)

    def describe_segments(self, partition: TopicPartition) -> tuple[SegmentDescription, ...]:
        """Raises NotAvailableRemotelyError: the protocol has no request for a partition's segments."""
        raise NotAvailableRemotelyError(
            f"{partition}: brokers do not list segments; use the option path with the log directory instead",
            topic=partition.topic,
            partition=partition.partition,
        )

    # -- splitting ranges --

    def find_offset_within_bytes(
        self, partition: TopicPartition, from_offset: int, until_offset: int, max_bytes: int
    ) -> int:
        return self._sampler.find_offset_within_bytes(partition, from_offset, until_offset, max_bytes)

    def bytes_between(self, partition: TopicPartition, from_offset: int, until_offset: int) -> int:
        return self._sampler.bytes_between(partition, from_offset, until_offset)

    def ranges_with_key(
        self, partition: TopicPartition, key: bytes | None, from_offset: int, until_offset: int
    ) -> KeyRanges:
        return KeyRanges(ranges=((from_offset, until_offset),) if from_offset < until_offset else (), skipped_bytes=0)

    # -- producers and transactions --

    def init_producer(
        self,
        transactional_id: str | None = None,
        *,
        timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS,
        is_two_phase: bool = False,
    ) -> ProducerIdAndEpoch:
        made = self._transactions.init_producer(transactional_id, timeout_ms, is_two_phase=is_two_phase)
        if transactional_id is not None:
            self._append.remember(made.producer_id, transactional_id)
        return made

    def add_partitions_to_transaction(
        self, producer: TransactionalProducer, partitions: Collection[TopicPartition]
    ) -> None:
        self._append.remember(producer.producer_id, producer.transactional_id)
        self._transactions.add_partitions(producer, partitions)

    def commit_offsets_in_transaction(
        self, producer: TransactionalProducer, group_id: str, offsets: Mapping[TopicPartition, GroupOffset]
    ) -> None:
        self._transactions.commit_offsets(producer, group_id, offsets)

    def end_transaction(
        self,
        producer: TransactionalProducer,
        *,
        commit: bool,
        together_with: Sequence[TransactionalProducer] = (),
    ) -> None:
        self._transactions.end(producer, commit=commit, together_with=together_with)

    def abort_transaction(self, transactional_id: str) -> bool:
        return self._transactions.abort(transactional_id)

    def describe_transactions(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription]:
        return self._listing.describe(transactional_ids)

    def list_transactions(
        self, *, prefix: str = "", states: Collection[TransactionState] | None = None
    ) -> tuple[TransactionDescription, ...]:
        return self._listing.list_all(prefix, states)

    # -- consumer groups --

    def list_groups(self) -> tuple[str, ...]:
        return self._groups.list_groups()

    def describe_group(self, group_id: str) -> GroupDescription:
        return describe_group(self._router, group_id)

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, GroupOffset],
        *,
        topic_ids: Mapping[str, UUID] | None = None,
    ) -> None:
        self._groups.commit(group_id, offsets, topic_ids or {})

    def fetch_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, GroupOffset]:
        return self._groups.fetch(group_id, partitions)

    def delete_group(self, group_id: str) -> None:
        self._groups.delete_group(group_id)

    # -- the end --

    def close(self) -> None:
        """Closes the connections. Closing twice is harmless; any other call afterwards raises RemoteError."""
        self._router.close()

    def __enter__(self) -> ClusterClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
