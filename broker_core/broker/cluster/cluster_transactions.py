"""The transactions of a broker with the other brokers of its cluster: verification and markers over the network.

    a produce here   AddPartitionsToTxn ──► the coordinator of its id: open? ──► appended, if no marker came meanwhile
    an end here      WriteTxnMarkers ──► the leader of each partition

Between the coordinator's answer and the append a marker may end the transaction, and an append behind it would block
readers for ever. So a verification has a guard, which a marker of the producer takes away (KIP-890).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.broker.callback_errors import OnError
from broker_core.broker.cluster_view import NO_LEADER, ClusterView
from broker_core.broker.controller_port import BrokerPort
from broker_core.broker.timer_queue import TimerQueue
from broker_core.cluster import TransactionalProducer
from broker_core.model.exceptions import (
    ConcurrentTransactionsError,
    CoordinatorFencedError,
    CoordinatorNotAvailableError,
    InvalidProducerIdMappingError,
    InvalidTopicNameError,
    InvalidTransactionStateError,
    ProducerFencedError,
    StreamlogError,
    UnknownTopicError,
)
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.model.topic_name import TRANSACTION_STATE_TOPIC
from broker_core.ports import Clock
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build
from broker_core.record.control_records import EndTransactionMarker

_ADD_PARTITIONS, _ADD_PARTITIONS_VERSION = 24, 5
_WRITE_MARKERS, _WRITE_MARKERS_VERSION = 27, 1
_WAIT_MS: Final = 1000
"""How long an append waits for the end of its producer's last transaction, as at the coordinator itself."""
_PAUSE_MS: Final = 20

_ERRORS: Final[dict[ErrorCode, type[StreamlogError]]] = {
    ErrorCode.concurrent_transactions: ConcurrentTransactionsError,
    ErrorCode.invalid_producer_epoch: ProducerFencedError,
    ErrorCode.producer_fenced: ProducerFencedError,
    ErrorCode.invalid_producer_id_mapping: InvalidProducerIdMappingError,
    ErrorCode.invalid_txn_state: InvalidTransactionStateError,
    ErrorCode.transaction_coordinator_fenced: CoordinatorFencedError,
}
"""Everything else passes: the coordinator moved, is loading, or does not know the topic yet."""
_MARKER_ERRORS: Final[dict[ErrorCode, type[StreamlogError]]] = {
    ErrorCode.unknown_topic_or_partition: UnknownTopicError,
    ErrorCode.invalid_topic_exception: InvalidTopicNameError,
    ErrorCode.invalid_producer_epoch: ProducerFencedError,
    ErrorCode.transaction_coordinator_fenced: CoordinatorFencedError,
}


class ClusterTransactions:
    """A TransactionPeers."""

    def __init__(self, brokers: BrokerPort, members: ClusterView, timers: TimerQueue, clock: Clock) -> None:
        self._brokers, self._members = brokers, members
        self._timers, self._clock = timers, clock
        self._numbers = itertools.count()
        self._guards: dict[tuple[TopicPartition, int], set[int]] = {}
        """By partition and producer id, the verifications under way."""

    def has_coordinator_of(self, transactional_id: str) -> bool:
        return self._coordinator_of(transactional_id) not in (NO_LEADER, self._members.node_id)

    def on_marker(self, partition: TopicPartition, producer_id: int) -> None:
        self._guards.pop((partition, producer_id), None)

    def admit(
        self,
        producer: TransactionalProducer,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
        on_ready: Callable[[frozenset[TopicPartition]], None],
        on_error: OnError,
    ) -> None:
        number, until_ms = next(self._numbers), self._clock.now_ms() + _WAIT_MS
        keys = [(partition, producer.producer_id) for partition in partitions]

        def ask() -> None:
            for key in keys:
                self._guards.setdefault(key, set()).add(number)
            broker_id = self._coordinator_of(producer.transactional_id)
            self._brokers.ask(broker_id, _verification(producer, partitions, adds=adds), answered, failed)

        def answered(response: Any) -> None:
            is_guarded = self._release(keys, number)
            error, outside = _judged(response)
            if isinstance(error, ConcurrentTransactionsError) and adds and self._clock.now_ms() < until_ms:
                self._timers.set(("admission", number), self._clock.now_ms() + _PAUSE_MS, lambda now_ms: ask())
            elif error is not None:
                on_error(error)
            elif not is_guarded:
                on_error(CoordinatorNotAvailableError("the transaction was ended while it was verified"))
            else:
                on_ready(outside)

        def failed(error: StreamlogError) -> None:
            self._release(keys, number)
            on_error(CoordinatorNotAvailableError(f"the transaction could not be verified: {error}"))

        ask()

    def write_marker(
        self,
        partition: TopicPartition,
        producer: ProducerIdAndEpoch,
        marker: EndTransactionMarker,
        on_done: Callable[[], None],
        on_error: OnError,
    ) -> None:
        leader_id = self._members.leader_of(partition).leader_id
        if leader_id in (NO_LEADER, self._members.node_id):
            on_error(CoordinatorNotAvailableError(f"{partition} has no leader that could write a marker"))
            return

        def answered(response: Any) -> None:
            code = response.markers[0].topics[0].partitions[0].error_code
            if code is ErrorCode.none:
                on_done()
            elif code is ErrorCode.unknown_topic_or_partition and self._members.leader_of(partition).replica_ids:
                on_error(CoordinatorNotAvailableError(f"{partition}: broker {leader_id} does not know it now"))
            else:
                kind = _MARKER_ERRORS.get(code, CoordinatorNotAvailableError)
                on_error(kind(f"{partition}: broker {leader_id} refuses a marker: {code.name}"))

        self._brokers.ask(leader_id, _marker_request(partition, producer, marker), answered, on_error)

    def _coordinator_of(self, transactional_id: str) -> int:
        try:
            return self._members.coordinator_of(TRANSACTION_STATE_TOPIC, transactional_id)
        except KeyError:
            return NO_LEADER

    def _release(self, keys: Sequence[tuple[TopicPartition, int]], number: int) -> bool:
        """Whether all guards are still there."""
        is_guarded = True
        for key in keys:
            guards = self._guards.get(key, set())
            is_guarded = is_guarded and number in guards
            guards.discard(number)
            if not guards:
                self._guards.pop(key, None)
        return is_guarded


def _by_topic(partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    return [{"name": name, "partitions": numbers} for name, numbers in topics.items()]


def _verification(producer: TransactionalProducer, partitions: Sequence[TopicPartition], *, adds: bool) -> Any:
    transaction = {
        "transactional_id": producer.transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "verify_only": not adds,
        "topics": _by_topic(partitions),
    }
    return build(message_types(_ADD_PARTITIONS, _ADD_PARTITIONS_VERSION).request, {"transactions": [transaction]})


def _judged(response: Any) -> tuple[StreamlogError | None, frozenset[TopicPartition]]:
    """(an error of the whole, the partitions that are not in the transaction)"""
    codes = dict(_codes_in(response))
    outside = frozenset(partition for partition, code in codes.items() if code is ErrorCode.transaction_abortable)
    refusals = set(codes.values()) - {
        ErrorCode.none,
        ErrorCode.transaction_abortable,
        ErrorCode.operation_not_attempted,
    }
    if response.error_code is not ErrorCode.none:
        refusals.add(response.error_code)
    if not refusals:
        return None, outside
    code = min(refusals, key=int)
    kind = _ERRORS.get(code, CoordinatorNotAvailableError)
    return kind(f"the coordinator of the transaction refuses: {code.name}"), outside


def _codes_in(response: Any) -> Iterator[tuple[TopicPartition, ErrorCode]]:
    for transaction in response.results_by_transaction:
        for topic in transaction.topic_results:
            for each in topic.results_by_partition:
                yield TopicPartition(topic.name, each.partition_index), each.partition_error_code


def _marker_request(partition: TopicPartition, producer: ProducerIdAndEpoch, marker: EndTransactionMarker) -> Any:
    values = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "transaction_result": marker.is_commit,
        "topics": [{"name": partition.topic, "partition_indexes": [partition.partition]}],
        "coordinator_epoch": marker.coordinator_epoch,
    }
    return build(message_types(_WRITE_MARKERS, _WRITE_MARKERS_VERSION).request, {"markers": [values]})
