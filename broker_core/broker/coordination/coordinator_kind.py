"""The two coordinators that a node runs, as what their logs' records do to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from broker_core.coordinator.coordinator_batch import Encoding
from broker_core.coordinator.stored_records import EndedTransaction, StoredEvent
from broker_core.group.coordinator_records import (
    AnyGroupRecord,
    decode_coordinator_record,
    encode_coordinator_record,
)
from broker_core.group.group_coordinator import GroupCoordinator
from broker_core.log_directory.internal_topics import CONSUMER_OFFSETS_PARTITION, TRANSACTION_STATE_PARTITION
from broker_core.model.identifiers import TopicPartition
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.txn_records import TransactionRecord, decode_transaction_record, encode_transaction_record

State = TypeVar("State")
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorKind(Generic[State, Record]):
    """`begin` gives a coordinator that knows nothing. `decode` gives None for what is to be skipped.

    `replay(state, record, offset, producer_id)`: -1 for a record that counts at once. `replay_marker(state,
    producer_id, is_commit)`: a producer's transaction ends in this log.
    """

    partition: TopicPartition
    begin: Callable[[], State]
    encode: Encoding[Record]
    decode: Callable[[bytes, bytes | None], Record | None]
    replay: Callable[[State, Record, int, int], None]
    replay_marker: Callable[[State, int, bool], None]

    def replay_event(self, state: State, event: StoredEvent) -> None:
        """What was read back. Raises CorruptDataError for a record that cannot be read."""
        if isinstance(event, EndedTransaction):
            self.replay_marker(state, event.producer_id, event.is_commit)
            return
        record = self.decode(event.key, event.value)
        if record is not None:
            self.replay(state, record, event.offset, event.producer_id)


def transactions_kind(
    begin: Callable[[], TransactionCoordinator],
) -> CoordinatorKind[TransactionCoordinator, TransactionRecord]:
    """Of `__transaction_state`, in which there are no transactions."""
    return CoordinatorKind(
        partition=TRANSACTION_STATE_PARTITION,
        begin=begin,
        encode=encode_transaction_record,
        decode=decode_transaction_record,
        replay=lambda coordinator, record, offset, producer_id: coordinator.replay(record),
        replay_marker=lambda coordinator, producer_id, is_commit: None,
    )


def groups_kind(begin: Callable[[], GroupCoordinator]) -> CoordinatorKind[GroupCoordinator, AnyGroupRecord]:
    """Of `__consumer_offsets`."""
    return CoordinatorKind(
        partition=CONSUMER_OFFSETS_PARTITION,
        begin=begin,
        encode=encode_coordinator_record,
        decode=decode_coordinator_record,
        replay=lambda coordinator, record, offset, producer_id: coordinator.replay(
            record, record_offset=offset, producer_id=producer_id
        ),
        replay_marker=lambda coordinator, producer_id, is_commit: coordinator.replay_marker(
            producer_id, is_commit=is_commit
        ),
    )
