"""The open objects of one log directory, as long as the path has the same directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from broker_core.embedded.blocked_readers import BlockedReaders
from broker_core.embedded.consumer_offsets import ConsumerOffsets
from broker_core.embedded.coordinator_log import CoordinatorLog
from broker_core.embedded.coordinator_state import CoordinatorState
from broker_core.embedded.coordinator_views import GroupView, TransactionView
from broker_core.embedded.foreign_topics import ForeignTopics
from broker_core.embedded.internal_records import offsets_in, partitions_of, transactions_in
from broker_core.embedded.marker_writer import MarkerWriter
from broker_core.embedded.transactions import Transactions
from broker_core.group.offsets.group_offsets import GroupOffsets
from broker_core.log_directory.directory import DirectoryKind, LogDirectory
from broker_core.log_directory.internal_topics import InternalTopics
from broker_core.log_directory.metadata_log import MetadataLog
from broker_core.log_directory.open_file_limit import open_partition_count
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.log_directory.partition_folders import PartitionFolders
from broker_core.log_directory.partition_maintenance import PartitionMaintenance
from broker_core.log_directory.producer_ids import ProducerIds
from broker_core.log_directory.topic_catalog import TopicCatalog
from broker_core.metadata.controller import MetadataController, ProducerIdBlock
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from broker_core.ports import Clock, Entropy, FileSystem
from broker_core.storage.unfinished_swaps import SwapsFinished
from broker_core.txn.transaction_coordinator import TransactionCoordinator


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLog:
    """What a streamlog directory has besides: the objects that change the log."""

    metadata_log: MetadataLog
    folders: PartitionFolders
    producer_ids: ProducerIds
    maintenance: PartitionMaintenance
    transactions: Transactions
    offsets: ConsumerOffsets
    blocked: BlockedReaders


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLog:
    """`own` is None for a real Kafka's directory."""

    catalog: TopicCatalog
    access: PartitionAccess
    transactions: TransactionView
    groups: GroupView
    own: OwnLog | None
    states: tuple[CoordinatorState[Any, Any], ...] = ()

    def close(self) -> None:
        for state in self.states:
            state.close()
        self.access.close()
        self.catalog.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenerServices:
    """What opening a log needs besides the directory. `on_rolled`: a partition started a segment, so maintenance is
    due. `make_directory` creates the log if the directory is ABSENT."""

    fs: FileSystem
    clock: Clock
    entropy: Entropy
    on_rolled: Callable[[TopicPartition], None]
    make_directory: Callable[[], None]


def open_log(directory: LogDirectory, services: OpenerServices) -> OpenLog:
    """Opens no files yet: they are opened on demand. An ABSENT directory is treated as a streamlog directory without
    topics."""
    return (
        _open_foreign(directory, services)
        if directory.kind is DirectoryKind.FOREIGN
        else _open_own(directory, services)
    )


def _open_foreign(directory: LogDirectory, services: OpenerServices) -> OpenLog:
    catalog = ForeignTopics(services.fs, directory.path)
    access = PartitionAccess(
        SwapsFinished(services.fs), directory, catalog, None, max_open_count=open_partition_count()
    )

    def transaction_states() -> Iterator[CoordinatorState[TransactionCoordinator, Any]]:
        return (transactions_in(access, catalog, n) for n in partitions_of(catalog, TRANSACTION_STATE_TOPIC))

    def offset_states() -> Iterator[CoordinatorState[GroupOffsets, Any]]:
        return (offsets_in(access, catalog, n) for n in partitions_of(catalog, CONSUMER_OFFSETS_TOPIC))

    return OpenLog(
        catalog=catalog,
        access=access,
        transactions=TransactionView(transaction_states, _settle_nothing),
        groups=GroupView(offset_states, _settle_nothing),
        own=None,
    )


def _open_own(directory: LogDirectory, services: OpenerServices) -> OpenLog:
    clock, entropy, on_rolled = services.clock, services.entropy, services.on_rolled
    metadata_log = MetadataLog(services.fs, directory, clock)
    folders = PartitionFolders(services.fs, directory.path, metadata_log, entropy)
    access = PartitionAccess(
        services.fs,
        directory,
        metadata_log,
        folders,
        max_open_count=open_partition_count(),
        topic_defaults=metadata_log.topic_defaults,
    )
    topics = InternalTopics(metadata_log, folders, entropy, make_directory=services.make_directory)

    def take_block() -> ProducerIdBlock:
        services.make_directory()
        return metadata_log.change(MetadataController.plan_allocate_producer_ids)

    producer_ids = ProducerIds(take_block)
    transaction_state = transactions_in(access, metadata_log, 0)
    transactions = Transactions(
        CoordinatorLog(transaction_state, access, topics, clock, on_rolled=on_rolled),
        MarkerWriter(transaction_state, access, clock, on_rolled=on_rolled),
        producer_ids,
        access,
        metadata_log,
        clock,
    )

    def topic_id_of(name: str) -> UUID | None:
        topic = metadata_log.topic(name)
        return None if topic is None else topic.topic_id

    offset_state = offsets_in(access, metadata_log, 0, topic_id_of=topic_id_of)
    offsets = ConsumerOffsets(
        CoordinatorLog(offset_state, access, topics, clock, on_rolled=on_rolled),
        transactions,
        topics,
        metadata_log,
        clock,
    )

    def settle() -> bool:
        return directory.is_writable and transactions.settle()

    own = OwnLog(
        metadata_log=metadata_log,
        folders=folders,
        producer_ids=producer_ids,
        maintenance=PartitionMaintenance(access, clock, entropy, pinned_offset=offsets.pinned_offset),
        transactions=transactions,
        offsets=offsets,
        blocked=BlockedReaders(settle, clock),
    )
    return OpenLog(
        catalog=metadata_log,
        access=access,
        transactions=TransactionView(lambda: [transaction_state], settle),
        groups=GroupView(lambda: [offset_state], settle),
        own=own,
        states=(transaction_state, offset_state),
    )


def _settle_nothing() -> bool:
    return False
