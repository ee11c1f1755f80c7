"""Transactions at a broker, with the requests that every Kafka since 3.0 supports.

    init_producer ──► add_partitions ──► appends, commit_offsets ──► end

A broker answers EndTxn when the decision is written; markers follow. `end` returns when every partition has its marker:
it polls the coordinator until the transaction is complete. With transactions version 2 (Kafka 4.0 and later, KIP-890)
each end bumps the producer's epoch, as in the embedded coordinator; older clusters do not, and an abort without an open
transaction then fences no producer.

A broker cannot decide several transactions at once: `end` first checks that each one can be ended, then decides the
first and after it the others, each until it is done or another producer took its transactional id. Transactions that
could not be ended after the first are reported when all were tried.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.client.broker_connection import BrokerConnection
from broker_core.client.broker_errors import broker_error
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.coordinator_finder import CoordinatorType
from broker_core.client.deadline import Backoff, Deadline
from broker_core.client.transaction_listing import TransactionListing
from broker_core.client.transaction_requests import (
    add_offsets_request,
    add_partitions_request,
    commit_offsets_request,
    end_request,
    init_request,
    two_phase_init_request,
)
from broker_core.cluster import GroupOffset, TransactionalProducer, TransactionDescription
from broker_core.model.exceptions import (
    InvalidProducerIdMappingError,
    InvalidTransactionStateError,
    PartlyEndedError,
    ProducerFencedError,
    RequestTimedOutError,
    StreamlogError,
    UnknownTransactionalIdError,
)
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.model.transaction_state import TransactionState
from broker_core.protocol.api_table import ApiKey

_EPOCH_RAISING_END_VERSION: Final = 5
"""The version of EndTxn if the feature `transaction.version` is at level 2."""

_LAST_EPOCH: Final = 32_766
"""The last epoch: after it a producer gets a new id, which starts at epoch 0."""

_TWO_PHASE_VERSION: Final = 6
"""The first version of InitProducerId with transactions without a timeout. Kafka 4.3 does not offer it yet."""

_MARKERS_BACKOFF_MS: Final = 2
_ENDED_ALIKE: Final = {
    True: (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT),
    False: (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT, TransactionState.EMPTY),
}


class RemoteTransactions:
    """`Cluster` documents the methods."""

    def __init__(self, router: BrokerRouter, listing: TransactionListing) -> None:
        self._router = router
        self._listing = listing

    def init_producer(self, transactional_id: str | None, timeout_ms: int, *, is_two_phase: bool) -> ProducerIdAndEpoch:
        """A broker without two-phase transactions opens an ordinary one with the requested timeout."""
        what = f"init producer {transactional_id!r}" if transactional_id is not None else "init producer"

        def attempt(deadline: Deadline) -> ProducerIdAndEpoch:
            if transactional_id is None:
                answer = self._router.ask_any(init_request(None, timeout_ms), deadline)
            else:
                answer = self._init_at_coordinator(transactional_id, timeout_ms, is_two_phase, deadline)
            if answer.error_code != ErrorCode.none:
                raise broker_error(answer.error_code, what, transactional_id=transactional_id)
            return ProducerIdAndEpoch(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)

        return self._router.run(what, attempt)

    def add_partitions(self, producer: TransactionalProducer, partitions: Collection[TopicPartition]) -> None:
        if not partitions:
            return
        request = add_partitions_request(producer, partitions)
        what = f"add partitions to the transaction of {producer.transactional_id!r}"

        def attempt(deadline: Deadline) -> None:
            answer = self._ask_coordinator(producer, request, deadline)
            for topic in answer.results_by_topic_v3_and_below:
                for result in topic.results_by_partition:
                    # All or none: OPERATION_NOT_ATTEMPTED only says that another partition failed.
                    if result.partition_error_code not in (ErrorCode.none, ErrorCode.operation_not_attempted):
                        partition = TopicPartition(topic.name, result.partition_index)
                        raise self._router.refusal(result.partition_error_code, what, partition, deadline)

        self._run(producer, what, attempt)

    def commit_offsets(
        self, producer: TransactionalProducer, group_id: str, offsets: Mapping[TopicPartition, GroupOffset]
    ) -> None:
        what = f"commit offsets of group {group_id!r} in the transaction of {producer.transactional_id!r}"
        adding = add_offsets_request(producer, group_id)
        committing = commit_offsets_request(producer, group_id, offsets)

        def add(deadline: Deadline) -> None:
            answer = self._ask_coordinator(producer, adding, deadline)
            if answer.error_code != ErrorCode.none:
                raise broker_error(answer.error_code, what)

        def commit(deadline: Deadline) -> None:
            (answer,) = self._router.ask_coordinator(CoordinatorType.GROUP, group_id, [committing], deadline)
            for topic in answer.topics:
                for result in topic.partitions:
                    if result.error_code != ErrorCode.none:
                        partition = TopicPartition(topic.name, result.partition_index)
                        raise self._router.refusal(result.error_code, what, partition, deadline)

        self._run(producer, what, add)
        self._run(producer, what, commit)

    def end(
        self, producer: TransactionalProducer, *, commit: bool, together_with: Sequence[TransactionalProducer]
    ) -> None:
        everyone = (producer, *together_with)
        if together_with:
            self._require_endable(everyone, commit=commit)
        self._end_one(producer, commit=commit)
        errors = []
        for other in together_with:
            try:
                self._end_one(other, commit=commit)
            except StreamlogError as error:
                errors.append((other, error))
        self._await_markers([one for one in everyone if one not in {other for other, _ in errors}])
        if errors:
            _, first = errors[0]
            names = ", ".join(repr(other.transactional_id) for other, _ in errors)
            raise PartlyEndedError(
                f"the transaction of {producer.transactional_id!r} was {'committed' if commit else 'aborted'}, but "
                f"those of {names} could not be ended the same way afterwards: {first.message}",
                transactional_ids=tuple(other.transactional_id for other, _ in errors),
            ) from first

    def abort(self, transactional_id: str) -> bool:
        """Aborts by taking over the transactional id, as Kafka's tools do."""
        described = self._listing.describe([transactional_id]).get(transactional_id)
        if described is None:
            raise UnknownTransactionalIdError(
                f"No transaction coordinator knows the transactional id {transactional_id!r}.",
                transactional_id=transactional_id,
            )
        if not _is_open_or_ending(described):
            return False
        self.init_producer(transactional_id, described.timeout_ms, is_two_phase=False)
        return True

    # -- one transaction --

    def _init_at_coordinator(
        self, transactional_id: str, timeout_ms: int, is_two_phase: bool, deadline: Deadline
    ) -> Any:
        node_id = self._router.coordinator(CoordinatorType.TRANSACTION, transactional_id, deadline)
        connection = self._router.node(node_id, deadline)
        if is_two_phase and connection.supports(ApiKey.INIT_PRODUCER_ID, _TWO_PHASE_VERSION):
            request = two_phase_init_request(transactional_id, timeout_ms)
        else:
            request = init_request(transactional_id, timeout_ms)
        return connection.ask([request], deadline)[0]

    def _end_one(self, producer: TransactionalProducer, *, commit: bool) -> None:
        name = producer.transactional_id
        what = f"{'commit' if commit else 'abort'} the transaction of {name!r}"

        def attempt(deadline: Deadline) -> None:
            node_id = self._router.coordinator(CoordinatorType.TRANSACTION, name, deadline)
            connection = self._router.node(node_id, deadline)
            raises_epoch = _raises_epoch(connection)
            (answer,) = connection.ask([end_request(producer, commit=commit, raises_epoch=raises_epoch)], deadline)
            if answer.error_code == ErrorCode.invalid_txn_state and not commit and self._has_nothing_open(producer):
                return
            if answer.error_code != ErrorCode.none:
                raise broker_error(answer.error_code, what, transactional_id=producer.transactional_id)

        self._run(producer, what, attempt, timeout_ms=self._router.settings.delivery_timeout_ms)

    def _has_nothing_open(self, producer: TransactionalProducer) -> bool:
        """A broker refuses to abort a transaction that was never opened; here that is harmless."""
        found = self._listing.describe([producer.transactional_id]).get(producer.transactional_id)
        mine = (producer.producer_id, producer.producer_epoch)
        return (
            found is not None
            and found.state is TransactionState.EMPTY
            and ((found.producer_id, found.producer_epoch) == mine)
        )

    def _require_endable(self, producers: Sequence[TransactionalProducer], *, commit: bool) -> None:
        """Checks all of them first, so that nothing is decided if one has ended already."""
        described = self._listing.describe([producer.transactional_id for producer in producers])
        for producer in producers:
            found = described.get(producer.transactional_id)
            if found is None:
                raise UnknownTransactionalIdError(
                    f"No transaction coordinator knows the transactional id {producer.transactional_id!r}.",
                    transactional_id=producer.transactional_id,
                )
            is_ended_alike = found.state in _ENDED_ALIKE[commit]
            is_ended = is_ended_alike or found.state in _ENDED_ALIKE[not commit]
            if not _is_same_producer(found, producer, may_be_ended=is_ended):
                raise ProducerFencedError(
                    f"The transactional id {producer.transactional_id!r} now has epoch {found.producer_epoch}, not "
                    f"{producer.producer_epoch}: another producer took it over, or its transaction timed out.",
                    transactional_id=producer.transactional_id,
                )
            if found.state is not TransactionState.ONGOING and not is_ended_alike:
                raise InvalidTransactionStateError(
                    f"The transaction of {producer.transactional_id!r} is not open: its state is {found.state.label}.",
                    transactional_id=producer.transactional_id,
                )

    def _await_markers(self, producers: Sequence[TransactionalProducer]) -> None:
        backoff = Backoff(first_ms=_MARKERS_BACKOFF_MS, longest_ms=self._router.settings.retry_backoff_ms)
        deadline = Deadline(self._router.settings.delivery_timeout_ms, setting="delivery.timeout.ms")
        waiting = {producer.transactional_id: producer for producer in producers}
        while waiting:
            described = self._listing.describe(list(waiting))
            waiting = {name: producer for name, producer in waiting.items() if _is_being_ended(described.get(name))}
            if waiting and not deadline.pause(backoff.next_seconds()):
                raise RequestTimedOutError(
                    f"the transactions of {', '.join(map(repr, waiting))} are decided, but their markers were not "
                    f"written within {deadline.timeout_ms} ms ({deadline.setting})"
                )

    def _ask_coordinator(self, producer: TransactionalProducer, request: Any, deadline: Deadline) -> Any:
        name = producer.transactional_id
        return self._router.ask_coordinator(CoordinatorType.TRANSACTION, name, [request], deadline)[0]

    def _run(self, producer: TransactionalProducer, what: str, attempt: Any, *, timeout_ms: int | None = None) -> None:
        """A broker answers INVALID_PRODUCER_ID_MAPPING also for an unknown transactional id; this distinguishes the
        two."""
        try:
            self._router.run(what, attempt, timeout_ms=timeout_ms)
        except InvalidProducerIdMappingError as error:
            name = producer.transactional_id
            if name in self._listing.describe([name]):
                raise
            raise UnknownTransactionalIdError(
                f"{what}: no transaction coordinator knows {name!r}", transactional_id=name
            ) from error


def _is_open_or_ending(described: TransactionDescription) -> bool:
    return described.state in (
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
        TransactionState.PREPARE_EPOCH_FENCE,
    )


def _is_being_ended(found: TransactionDescription | None) -> bool:
    """Whether markers of the transaction may be missing."""
    return found is not None and found.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


def _is_same_producer(found: TransactionDescription, producer: TransactionalProducer, *, may_be_ended: bool) -> bool:
    """Whether the coordinator has this producer, or its successor after an end: the next epoch, or after the last epoch
    a new id."""
    if found.producer_id != producer.producer_id:
        return may_be_ended and found.producer_epoch == 0 and producer.producer_epoch >= _LAST_EPOCH - 1
    return found.producer_epoch == producer.producer_epoch or (
        may_be_ended and found.producer_epoch == producer.producer_epoch + 1
    )


def _raises_epoch(connection: BrokerConnection) -> bool:
    return (
        connection.supports(ApiKey.END_TXN, _EPOCH_RAISING_END_VERSION)
        and connection.feature_level("transaction.version") >= 2
    )
