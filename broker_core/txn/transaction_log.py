"""`__transaction_state` as a coordinator's log."""

from __future__ import annotations

from collections.abc import Callable

from broker_core.coordinator.coordinator_kind import CoordinatorKind
from broker_core.model.exceptions import PolicyViolationError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import TRANSACTION_STATE_TOPIC
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.txn_records import TransactionRecord, decode_any_transaction_record, encode_transaction_record
from broker_core.txn.txn_states import OPEN_OR_ENDING


def transactions_kind(
    partition: TopicPartition, begin: Callable[[], TransactionCoordinator]
) -> CoordinatorKind[TransactionCoordinator, TransactionRecord]:
    """There are no transactions in this log, so markers say nothing."""
    return CoordinatorKind(
        partition=partition,
        begin=begin,
        encode=encode_transaction_record,
        decode=decode_any_transaction_record,
        replay=lambda coordinator, record, offset, producer_id: coordinator.replay(record),
        replay_marker=lambda coordinator, producer_id, is_commit: None,
    )


def require_none_open(coordinator: TransactionCoordinator) -> None:
    """Raises PolicyViolationError if a transaction is open or being ended: without the log it could not be ended, and
    readers of committed records would wait for it. (Kafka deletes the log, and they wait.)"""
    open_ids = coordinator.find(lambda _, value: value.state in OPEN_OR_ENDING)
    if open_ids:
        raise PolicyViolationError(
            f"Topic {TRANSACTION_STATE_TOPIC} holds {len(open_ids)} open transactions, which could not be ended without"
            f" it, for example '{next(iter(open_ids))}': commit or abort them first.",
            topic=TRANSACTION_STATE_TOPIC,
        )
