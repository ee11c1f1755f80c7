"""Kafka's transactions, which a log on object storage does not support: refused with a hint at the alternative."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from broker_core.cluster import GroupOffset, TransactionalProducer, TransactionDescription
from broker_core.model.exceptions import NotAvailableOnObjectsError, UnknownTransactionalIdError
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.model.limits import DEFAULT_TRANSACTION_TIMEOUT_MS
from broker_core.model.transaction_state import TransactionState


class TransactionsRefused(ABC):
    """The transaction methods of `ObjectCluster`. Queries return that there are none."""

    @abstractmethod
    def _fresh_producer(self) -> ProducerIdAndEpoch: ...

    @abstractmethod
    def _url(self) -> str: ...

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
        if transactional_id is not None:
            self._refuse()
        return self._fresh_producer()

    def add_partitions_to_transaction(
        self, producer: TransactionalProducer, partitions: Collection[TopicPartition]
    ) -> None:
        self._refuse()

    def commit_offsets_in_transaction(
        self, producer: TransactionalProducer, group_id: str, offsets: Mapping[TopicPartition, GroupOffset]
    ) -> None:
        self._refuse()

    def end_transaction(
        self, producer: TransactionalProducer, *, commit: bool, together_with: Sequence[TransactionalProducer] = ()
    ) -> None:
        self._refuse()

    def abort_transaction(self, transactional_id: str) -> bool:
        raise UnknownTransactionalIdError(
            f"{self._url()} is a log on object storage, which has no transactions. It does not know"
            f" {transactional_id!r}.",
            transactional_id=transactional_id,
        )

    def describe_transactions(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription]:
        return {}

    def list_transactions(
        self, *, prefix: str = "", states: Collection[TransactionState] | None = None
    ) -> tuple[TransactionDescription, ...]:
        return ()

    def _refuse(self) -> NoReturn:
        raise NotAvailableOnObjectsError(
            f"{self._url()} is a log on object storage, which has no Kafka transactions. It is written exactly-once by"
            " staged writes (broker_core.staged_writes), as Spark's sink does. A directory or a broker has them.",
            url=self._url(),
        )
