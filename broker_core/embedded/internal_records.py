"""How events of the two coordinators' logs change their machines, and partitions of these logs as states."""

from __future__ import annotations

from collections.abc import Iterator

from broker_core.coordinator.stored_records import EndedTransaction, StoredEvent
from broker_core.embedded.coordinator_state import CoordinatorState
from broker_core.group.group_records import decode_group_record
from broker_core.group.offsets.group_offsets import GroupOffsets, TopicIdOf
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.log_directory.topic_catalog import TopicCatalog
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import MAX_EMBEDDED_TRANSACTION_TIMEOUT_MS
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.txn_records import decode_transaction_record


def transactions_in(
    access: PartitionAccess, catalog: TopicCatalog, number: int
) -> CoordinatorState[TransactionCoordinator]:
    """Of one partition of `__transaction_state`."""
    partition = TopicPartition(TRANSACTION_STATE_TOPIC, number)
    return CoordinatorState(partition, access, catalog, begin=_new_coordinator, replay=_replay_transaction)


def offsets_in(
    access: PartitionAccess, catalog: TopicCatalog, number: int, *, topic_id_of: TopicIdOf | None = None
) -> CoordinatorState[GroupOffsets]:
    """Of one partition of `__consumer_offsets`. `topic_id_of`: see `GroupOffsets`."""
    partition = TopicPartition(CONSUMER_OFFSETS_TOPIC, number)
    return CoordinatorState(partition, access, catalog, begin=lambda: GroupOffsets(topic_id_of), replay=_replay_offset)


def partitions_of(catalog: TopicCatalog, topic: str) -> Iterator[int]:
    """A real Kafka spreads the ids over fifty partitions, by their hash; who asks for one of them may read all."""
    catalog.refresh()
    found = catalog.topic(topic)
    return iter(range(found.partition_count if found is not None else 0))


def _new_coordinator() -> TransactionCoordinator:
    return TransactionCoordinator(longest_timeout_ms=MAX_EMBEDDED_TRANSACTION_TIMEOUT_MS)


def _replay_transaction(coordinator: TransactionCoordinator, event: StoredEvent) -> None:
    if isinstance(event, EndedTransaction):
        return
    record = decode_transaction_record(event.key, event.value)
    if record is not None:
        coordinator.replay(record)


def _replay_offset(offsets: GroupOffsets, event: StoredEvent) -> None:
    if isinstance(event, EndedTransaction):
        offsets.replay_marker(event.producer_id, is_commit=event.is_commit)
        return
    record = decode_group_record(event.key, event.value)
    if record is not None:
        offsets.replay(record, record_offset=event.offset, producer_id=event.producer_id)
