"""The states of the partitions of both coordinators' logs."""

from __future__ import annotations

from collections.abc import Iterator

from broker_core.embedded.coordinator_state import CoordinatorState
from broker_core.group.group_log import offsets_kind
from broker_core.group.group_records import GroupRecord
from broker_core.group.offsets.group_offsets import GroupOffsets, TopicIdOf
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.log_directory.topic_catalog import TopicCatalog
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import MAX_EMBEDDED_TRANSACTION_TIMEOUT_MS
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.transaction_log import transactions_kind
from broker_core.txn.txn_records import TransactionRecord


def transactions_in(
    access: PartitionAccess, catalog: TopicCatalog, number: int
) -> CoordinatorState[TransactionCoordinator, TransactionRecord]:
    """The state of one partition of `__transaction_state`."""
    partition = TopicPartition(TRANSACTION_STATE_TOPIC, number)
    return CoordinatorState(transactions_kind(partition, _new_coordinator), access, catalog)


def offsets_in(
    access: PartitionAccess, catalog: TopicCatalog, number: int, *, topic_id_of: TopicIdOf | None = None
) -> CoordinatorState[GroupOffsets, GroupRecord]:
    """The state of one partition of `__consumer_offsets`. `topic_id_of`: see `GroupOffsets`."""
    partition = TopicPartition(CONSUMER_OFFSETS_TOPIC, number)
    return CoordinatorState(offsets_kind(partition, lambda: GroupOffsets(topic_id_of)), access, catalog)


def partitions_of(catalog: TopicCatalog, topic: str) -> Iterator[int]:
    """A real Kafka spreads the ids over fifty partitions, by their hash; a search for one id may read all of them."""
    catalog.refresh()
    found = catalog.topic(topic)
    return iter(range(found.partition_count if found is not None else 0))


def _new_coordinator() -> TransactionCoordinator:
    return TransactionCoordinator(longest_timeout_ms=MAX_EMBEDDED_TRANSACTION_TIMEOUT_MS)
