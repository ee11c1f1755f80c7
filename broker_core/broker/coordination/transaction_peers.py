"""What the transactions of a broker need of the other brokers of its cluster; a single node has no peers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from broker_core.broker.callback_errors import OnError
from broker_core.cluster import TransactionalProducer
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.record.control_records import EndTransactionMarker


class TransactionPeers(Protocol):
    """Callbacks come on the loop."""

    def has_coordinator_of(self, transactional_id: str) -> bool:
        """Whether another broker has the coordinator of this id."""
        ...

    def admit(
        self,
        producer: TransactionalProducer,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
        on_ready: Callable[[frozenset[TopicPartition]], None],
        on_error: OnError,
    ) -> None:
        """`TransactionService.admit`, asked of the broker that has the coordinator."""
        ...

    def on_marker(self, partition: TopicPartition, producer_id: int) -> None:
        """A marker of the producer is being written here: what was verified before it must not be appended any more."""
        ...

    def write_marker(
        self,
        partition: TopicPartition,
        producer: ProducerIdAndEpoch,
        marker: EndTransactionMarker,
        on_done: Callable[[], None],
        on_error: OnError,
    ) -> None:
        """At the broker that leads the partition."""
        ...
