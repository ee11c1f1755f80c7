"""The methods of `Cluster` for producers, transactions and groups. They delegate to the directory's coordinators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

from broker_core.cluster import GroupDescription, GroupOffset, TransactionalProducer, TransactionDescription
from broker_core.embedded.open_log import OpenLog, OwnLog
from broker_core.model.group_state import GroupState
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.model.limits import DEFAULT_TRANSACTION_TIMEOUT_MS
from broker_core.model.transaction_state import TransactionState

_FIRST_PRODUCER_EPOCH: Final = 0


class CoordinatedMethods(ABC):
    """A part of `EmbeddedCluster`. `broker_core.cluster.Cluster` documents the methods."""

    @abstractmethod
    def _opened(self) -> OpenLog: ...

    @abstractmethod
    def _changing(self) -> OwnLog: ...

    @property
    def ends_together(self) -> bool:
        return True

    def init_producer(
        self,
        transactional_id: str | None = None,
        *,
        timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS,
        is_two_phase: bool = False,
    ) -> ProducerIdAndEpoch:
        own = self._changing()
        if transactional_id is None:
            return ProducerIdAndEpoch(producer_id=own.producer_ids.next_id(), producer_epoch=_FIRST_PRODUCER_EPOCH)
        return own.transactions.init_producer(transactional_id, timeout_ms=timeout_ms, is_two_phase=is_two_phase)

    def add_partitions_to_transaction(
        self, producer: TransactionalProducer, partitions: Collection[TopicPartition]
    ) -> None:
        self._changing().transactions.add_partitions(producer, partitions)

    def commit_offsets_in_transaction(
        self, producer: TransactionalProducer, group_id: str, offsets: Mapping[TopicPartition, GroupOffset]
    ) -> None:
        self._changing().offsets.commit_in_transaction(producer, group_id, offsets)

    def end_transaction(
        self, producer: TransactionalProducer, *, commit: bool, together_with: Sequence[TransactionalProducer] = ()
    ) -> None:
        self._changing().transactions.end((producer, *together_with), commit=commit)

    def abort_transaction(self, transactional_id: str) -> bool:
        return self._changing().transactions.abort(transactional_id)

    def describe_transactions(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription]:
        return self._opened().transactions.describe(transactional_ids)

    def list_transactions(
        self, *, prefix: str = "", states: Collection[TransactionState] | None = None
    ) -> tuple[TransactionDescription, ...]:
        return self._opened().transactions.list_transactions(prefix=prefix, states=states)

    def list_groups(self) -> tuple[str, ...]:
        return self._opened().groups.groups()

    def describe_group(self, group_id: str) -> GroupDescription:
        log = self._opened()
        if not log.groups.fetch(group_id, None):
            return GroupDescription(group_id=group_id, state=GroupState.DEAD)
        is_ours = log.own is not None
        return GroupDescription(group_id=group_id, state=GroupState.EMPTY if is_ours else GroupState.UNKNOWN)

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, GroupOffset],
        *,
        topic_ids: Mapping[str, UUID] | None = None,
    ) -> None:
        self._changing().offsets.commit(group_id, offsets, expected_ids=topic_ids or {})

    def fetch_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, GroupOffset]:
        return self._opened().groups.fetch(group_id, partitions)

    def delete_group(self, group_id: str) -> None:
        self._changing().offsets.delete_group(group_id)
