"""The transaction coordinators of a node, one for each partition of `__transaction_state`, and what none of them has.

of(id)                 the coordinator of a transactional id; it refuses if another broker has it
new_producer_id        for an idempotent producer, which has no transactions
admit, prepare_append  at the coordinator of the id, here or at another broker
write_marker           in a partition that this broker leads
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kio.schema.errors import ErrorCode

from broker_core.broker.callback_errors import OnError
from broker_core.broker.coordination.coordinator_partitions import CoordinatorPart, CoordinatorPartitions
from broker_core.broker.coordination.node_markers import NodeMarkers
from broker_core.broker.coordination.producer_id_pool import ProducerIdPool
from broker_core.broker.coordination.transaction_peers import TransactionPeers
from broker_core.broker.coordination.transaction_service import TransactionRuntime, TransactionService
from broker_core.cluster import TransactionalProducer
from broker_core.model.exceptions import (
    ConcurrentTransactionsError,
    CoordinatorError,
    InvalidProducerIdMappingError,
    ProducerFencedError,
    StreamlogError,
    UnknownTransactionalIdError,
)
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.record.control_records import EndTransactionMarker
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.txn_records import TransactionValue

TransactionPart = CoordinatorPart[TransactionRuntime, TransactionService]
TransactionPartitions = CoordinatorPartitions[TransactionRuntime, TransactionService]


class TransactionCoordinators:
    """Runs on the node's loop."""

    def __init__(
        self,
        partitions: TransactionPartitions,
        markers: NodeMarkers,
        producer_ids: ProducerIdPool,
        peers: TransactionPeers | None,
    ) -> None:
        self.partitions = partitions
        self._markers = markers
        self._producer_ids = producer_ids
        self._peers = peers

    def of(self, transactional_id: str) -> TransactionService:
        return self.partitions.of(transactional_id).service

    def new_producer_id(self, on_reply: Callable[[ProducerIdAndEpoch], None], on_error: OnError) -> None:
        def held() -> None:
            on_reply(ProducerIdAndEpoch(producer_id=self._producer_ids.take(), producer_epoch=0))

        self._producer_ids.when_held(held, on_error)

    # -- appends --

    def prepare_append(
        self,
        *,
        transactional_id: str | None,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        adds: bool,
        on_ready: Callable[[Mapping[TopicPartition, ErrorCode]], None],
        knows_abortable: bool = False,
    ) -> None:
        """`on_ready` gets the partitions that a transactional batch may not be written to, with Produce's errors.

        `adds`: they are added to the transaction (Produce 12 and later). `knows_abortable`: the client knows
        TRANSACTION_ABORTABLE (Produce 11 and later). `on_ready` must queue the appends before it returns.
        """

        def admitted(outside: frozenset[TopicPartition]) -> None:
            refusal = ErrorCode.transaction_abortable if knows_abortable else ErrorCode.invalid_txn_state
            on_ready(dict.fromkeys(outside, refusal))

        def refused(error: StreamlogError) -> None:
            on_ready(dict.fromkeys(partitions, _produce_error(error, adds=adds)))

        asking = TransactionalProducer(
            transactional_id=transactional_id or "",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
        self.admit(asking, partitions, adds=adds, on_ready=admitted, on_error=refused)

    def admit(
        self,
        producer: TransactionalProducer,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
        on_ready: Callable[[frozenset[TopicPartition]], None],
        on_error: OnError,
    ) -> None:
        """See `TransactionService.admit`."""
        peers = self._peers
        if peers is not None and peers.has_coordinator_of(producer.transactional_id):
            peers.admit(producer, partitions, adds=adds, on_ready=on_ready, on_error=on_error)
        else:
            self.of(producer.transactional_id).admit(
                producer, partitions, adds=adds, on_ready=on_ready, on_error=on_error
            )

    def write_marker(
        self,
        partition: TopicPartition,
        producer: ProducerIdAndEpoch,
        marker: EndTransactionMarker,
        *,
        on_done: Callable[[], None],
        on_error: OnError,
    ) -> None:
        """Writes a marker that a coordinator sends, or an administrator to end a hanging transaction. Only if the
        partition is led here."""
        self._markers.write_here(partition, producer, marker, on_done, on_error)

    # -- questions --

    def find(
        self,
        is_wanted: Callable[[str, TransactionValue], bool],
        on_reply: Callable[[dict[str, TransactionValue]], None],
        on_error: OnError,
    ) -> None:
        """The transactions of all coordinators here, by id, in order."""

        def found(parts: Sequence[Mapping[str, TransactionValue]]) -> None:
            on_reply(dict(sorted(item for part in parts for item in part.items())))

        self.partitions.ask_all(
            lambda service, on_reply, on_error: service.find(is_wanted, on_reply, on_error), found, on_error
        )

    # -- deletion --

    def release_topic(
        self, check: Callable[[TransactionCoordinator], None], on_released: Callable[[], None], on_error: OnError
    ) -> None:
        """See `CoordinatorRuntime.release_topic`: all partitions, or none."""
        self._release([part.runtime for part in self.partitions], [], check, on_released, on_error)

    def reload(self) -> None:
        for part in self.partitions:
            part.runtime.load()

    def _release(
        self,
        waiting: list[TransactionRuntime],
        released: list[TransactionRuntime],
        check: Callable[[TransactionCoordinator], None],
        on_released: Callable[[], None],
        on_error: OnError,
    ) -> None:
        if not waiting:
            on_released()
            return
        runtime, *rest = waiting

        def next_one() -> None:
            self._release(rest, [*released, runtime], check, on_released, on_error)

        def refused(error: StreamlogError) -> None:
            _load_each(released)
            on_error(error)

        runtime.release_topic(check, next_one, refused)


def _load_each(runtimes: Iterable[TransactionRuntime]) -> None:
    for runtime in runtimes:
        runtime.load()


def _produce_error(error: StreamlogError, *, adds: bool) -> ErrorCode:
    """The Produce error for an error of the transaction coordinator, as in Kafka."""
    if isinstance(error, UnknownTransactionalIdError | InvalidProducerIdMappingError):
        return ErrorCode.invalid_producer_id_mapping
    if isinstance(error, ProducerFencedError):
        return ErrorCode.invalid_producer_epoch
    if isinstance(error, CoordinatorError) or (isinstance(error, ConcurrentTransactionsError) and not adds):
        return ErrorCode.not_enough_replicas
    return error.error_code
