"""Writes a transaction marker: into a partition that this broker leads, or at the broker that does.

The markers of `__consumer_offsets` go through the group coordinator of the partition, which replays them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker_core.broker.callback_errors import OnError
from broker_core.broker.coordination.transaction_peers import TransactionPeers
from broker_core.broker.partition.replica import Replica
from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import InvalidTopicNameError, NotCoordinatorError, ReplicaError, StreamlogError
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.model.topic_name import CONSUMER_OFFSETS_TOPIC, is_internal_topic
from broker_core.ports import Clock
from broker_core.record.control_records import EndTransactionMarker, build_end_transaction_marker


class Replicas(Protocol):
    """The part of ReplicaManager that markers need."""

    def get(self, partition: TopicPartition) -> Replica: ...


class GroupLogs(Protocol):
    """The part of the group coordinators that markers need."""

    def append_marker(
        self,
        partition: TopicPartition,
        producer: ProducerIdAndEpoch,
        marker: EndTransactionMarker,
        on_done: Callable[[], None],
        on_error: OnError,
    ) -> None: ...


class NodeMarkers:
    """Of a node. Runs on its loop."""

    def __init__(
        self, replicas: Replicas, groups: GroupLogs, clock: Clock, peers: TransactionPeers | None = None
    ) -> None:
        self._replicas = replicas
        self._groups = groups
        self._clock = clock
        self._peers = peers

    @property
    def has_peers(self) -> bool:
        return self._peers is not None

    def write(
        self,
        partition: TopicPartition,
        producer: ProducerIdAndEpoch,
        marker: EndTransactionMarker,
        on_done: Callable[[], None],
        on_error: OnError,
    ) -> None:
        """The same as `write_here`, at whichever broker leads the partition."""
        peers = self._peers

        def refused(error: StreamlogError) -> None:
            if peers is not None and isinstance(error, ReplicaError | NotCoordinatorError):
                peers.write_marker(partition, producer, marker, on_done, on_error)
            else:
                on_error(error)

        self.write_here(partition, producer, marker, on_done, refused)

    def write_here(
        self,
        partition: TopicPartition,
        producer: ProducerIdAndEpoch,
        marker: EndTransactionMarker,
        on_done: Callable[[], None],
        on_error: OnError,
    ) -> None:
        """Writes one marker unchanged, without retries. Raises nothing: `on_error` gets UnknownTopicError,
        UnknownPartitionError, InvalidTopicNameError, ProducerFencedError, CoordinatorFencedError, CoordinatorError,
        ReplicaError and StorageError."""
        if self._peers is not None:
            self._peers.on_marker(partition, producer.producer_id)
        if partition.topic == CONSUMER_OFFSETS_TOPIC:
            self._groups.append_marker(partition, producer, marker, on_done, on_error)
            return
        if is_internal_topic(partition.topic):
            on_error(
                InvalidTopicNameError(
                    f"Cannot write a marker to internal topic {partition.topic}: only its coordinator writes it.",
                    topic=partition.topic,
                )
            )
            return
        try:
            replica = self._replicas.get(partition)
        except StreamlogError as error:
            on_error(error)
            return
        batch = build_end_transaction_marker(
            marker,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            timestamp_ms=self._clock.now_ms(),
        )
        replica.append(
            AppendRequest(
                batches=batch,
                origin=AppendOrigin.COORDINATOR,
                on_done=lambda result: on_done(),
                on_error=on_error,
            )
        )
