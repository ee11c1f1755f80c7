"""`__transaction_state` as a coordinator's log."""

from __future__ import annotations

from collections.abc import Callable

from broker_core.coordinator.coordinator_kind import CoordinatorKind
from broker_core.model.identifiers import TopicPartition
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.txn_records import TransactionRecord, decode_transaction_record, encode_transaction_record


def transactions_kind(
    partition: TopicPartition, begin: Callable[[], TransactionCoordinator]
) -> CoordinatorKind[TransactionCoordinator, TransactionRecord]:
    """There are no transactions in this log, so markers say nothing."""
    return CoordinatorKind(
        partition=partition,
        begin=begin,
        encode=encode_transaction_record,
        decode=decode_transaction_record,
        replay=lambda coordinator, record, offset, producer_id: coordinator.replay(record),
        replay_marker=lambda coordinator, producer_id, is_commit: None,
    )
