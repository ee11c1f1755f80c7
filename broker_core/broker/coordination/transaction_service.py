"""The transactions of one coordinator: runs its plans and carries out its decisions.

    init, add partitions   answered when they are durable in `__transaction_state`
    end                    answered when it is decided (Prepare*) and durable, as in Kafka; then markers, then Complete*
    admit                  returns the partitions that may not be written, and the caller queues its appends in the
                           same callback. An end that is planned later is answered later, and its markers are queued
                           after that: no record follows its transaction's marker
    time                   transactions past their timeout are fenced and aborted; expired ids are removed
    load                   decided but incomplete transactions of the loaded state get their markers, maybe again

Answers come by callbacks on the node's loop: `on_error` gets the coordinator's refusals, CoordinatorLoadingError and
CoordinatorNotAvailableError. Handlers choose a refusal's error code, which depends on the request's version.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final

from broker_core.broker.callback_errors import OnError
from broker_core.broker.coordination.append_admission import AppendAdmission
from broker_core.broker.coordination.coordinator_runtime import CoordinatorRuntime
from broker_core.broker.coordination.marker_sender import MarkerSender
from broker_core.broker.coordination.producer_id_pool import ProducerIdPool
from broker_core.broker.timer_queue import TimerQueue
from broker_core.cluster import TransactionalProducer
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.model.exceptions import (
    ConcurrentTransactionsError,
)
from broker_core.model.identifiers import ProducerIdAndEpoch, TopicPartition
from broker_core.model.limits import MAX_EXPIRED_ID_COUNT
from broker_core.ports import Clock
from broker_core.txn.producer_renewal import Renewal
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.transaction_replies import EndingTransaction, EndReply, InitReply
from broker_core.txn.txn_records import TransactionRecord, TransactionValue

TransactionRuntime = CoordinatorRuntime[TransactionCoordinator, TransactionRecord]

_log: Final = logging.getLogger(__name__)


class TransactionService:
    """Runs on the node's loop. `number`: the partition's. The intervals are Kafka's
    transaction.abort.timed.out.transaction.cleanup.interval.ms and
    transaction.remove.expired.transaction.cleanup.interval.ms."""

    def __init__(
        self,
        runtime: TransactionRuntime,
        markers: MarkerSender,
        producer_ids: ProducerIdPool,
        timers: TimerQueue,
        clock: Clock,
        *,
        expiry_interval_ms: int = 10_000,
        forgetting_interval_ms: int = 3_600_000,
        number: int = 0,
    ) -> None:
        self._runtime = runtime
        self._expiry_key = ("transactions expiry", number)
        self._markers = markers
        self._producer_ids = producer_ids
        self._timers = timers
        self._clock = clock
        self._expiry_interval_ms = expiry_interval_ms
        self._forgetting_interval_ms = forgetting_interval_ms
        self._forgets_at_ms = clock.now_ms() + forgetting_interval_ms
        self._renewals: dict[str, Renewal] = {}
        self._admission = AppendAdmission(runtime, timers, clock, number=number)
        runtime.on_loaded(self._on_loaded)

    def on_role(self) -> None:
        """The coordinator is about to be loaded, or to be given up."""
        self._markers.forget_all()
        self._renewals.clear()
        self._timers.cancel(self._expiry_key)

    # -- transactions --

    def init_producer_id(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        on_reply: Callable[[ProducerIdAndEpoch], None],
        on_error: OnError,
    ) -> None:
        """Returns the id's next producer instance.

        ConcurrentTransactionsError: the open transaction of the last instance is being ended first.
        """

        def plan(coordinator: TransactionCoordinator) -> CoordinatorResult[TransactionRecord, InitReply]:
            planned = coordinator.plan_init_producer(
                transactional_id,
                timeout_ms=timeout_ms,
                is_two_phase=False,
                new_producer_id=self._producer_ids.take,
                now_ms=self._clock.now_ms(),
                expected=expected,
                last_renewal=self._renewals.get(transactional_id),
            )
            self._note_renewal(transactional_id, expected, planned.reply.producer)
            return planned

        def done(reply: InitReply) -> None:
            if reply.producer is not None:
                on_reply(reply.producer)
                return
            self._send_owed()
            on_error(
                ConcurrentTransactionsError(
                    f"transactional id {transactional_id!r}: the transaction of the previous instance is being"
                    " ended: retry the request"
                )
            )

        self._producer_ids.when_held(lambda: self._runtime.change(plan, done, on_error), on_error)

    def add_partitions(
        self,
        producer: TransactionalProducer,
        partitions: Collection[TopicPartition],
        *,
        client_version: int,
        on_done: Callable[[], None],
        on_error: OnError,
    ) -> None:
        """Adds partitions to the transaction. The caller checks that they exist."""
        self._runtime.change(
            lambda coordinator: coordinator.plan_add_partitions(
                producer, partitions, now_ms=self._clock.now_ms(), client_version=client_version
            ),
            lambda _: on_done(),
            on_error,
        )

    def partitions_outside(
        self,
        producer: TransactionalProducer,
        partitions: Collection[TopicPartition],
        *,
        on_reply: Callable[[frozenset[TopicPartition]], None],
        on_error: OnError,
    ) -> None:
        """Returns the partitions that are not in the producer's open transaction."""
        self._runtime.look(lambda coordinator: coordinator.partitions_outside(producer, partitions), on_reply, on_error)

    def end(
        self,
        producer: TransactionalProducer,
        *,
        commit: bool,
        client_version: int,
        on_reply: Callable[[ProducerIdAndEpoch], None],
        on_error: OnError,
    ) -> None:
        """Replies with the producer's id and epoch for its next transaction; the markers are sent before that."""

        def plan(coordinator: TransactionCoordinator) -> CoordinatorResult[TransactionRecord, EndReply]:
            return coordinator.plan_end_one(
                producer,
                commit=commit,
                new_producer_id=self._producer_ids.take,
                now_ms=self._clock.now_ms(),
                client_version=client_version,
            )

        def done(reply: EndReply) -> None:
            if reply.ending is not None:
                self._send([reply.ending])
            on_reply(reply.producer)

        self._producer_ids.when_held(lambda: self._runtime.change(plan, done, on_error), on_error)

    # -- appends --

    def admit(
        self,
        producer: TransactionalProducer,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
        on_ready: Callable[[frozenset[TopicPartition]], None],
        on_error: OnError,
    ) -> None:
        """`on_ready` gets the partitions that may not be written, and must queue the appends before it returns.

        `adds`: they are added to the transaction, which may wait up to a second for the end of the producer's last one.
        """
        if not adds:
            self.partitions_outside(producer, partitions, on_reply=on_ready, on_error=on_error)
            return
        self._admission.add(producer, partitions, lambda: on_ready(frozenset()), on_error)

    # -- questions --

    def value_of(
        self, transactional_id: str, on_reply: Callable[[TransactionValue | None], None], on_error: OnError
    ) -> None:
        """None: the id is unknown."""
        self._runtime.look(lambda coordinator: coordinator.value(transactional_id), on_reply, on_error)

    def find(
        self,
        is_wanted: Callable[[str, TransactionValue], bool],
        on_reply: Callable[[dict[str, TransactionValue]], None],
        on_error: OnError,
    ) -> None:
        """Returns the transactions by id, in order."""
        self._runtime.look(lambda coordinator: coordinator.find(is_wanted), on_reply, on_error)

    # -- timers and loading --

    def _on_loaded(self) -> None:
        self._renewals.clear()
        self._send_owed()
        self._admission.wake_all()
        self._timers.set(self._expiry_key, self._clock.now_ms() + self._expiry_interval_ms, self._expire)

    def _send_owed(self) -> None:
        """Sends the missing markers once the decisions are durable. After a failure they are sent after the next
        load."""
        self._runtime.look(TransactionCoordinator.ending, self._send, _ignore)

    def _send(self, endings: Sequence[EndingTransaction]) -> None:
        self._markers.send(endings, self._complete)

    def _complete(self, ending: EndingTransaction) -> None:
        def done(_: None) -> None:
            self._admission.wake(ending.transactional_id)

        self._runtime.change(
            lambda coordinator: coordinator.plan_complete((ending,), now_ms=self._clock.now_ms()), done, _ignore
        )

    def _expire(self, now_ms: int) -> None:
        self._timers.set(self._expiry_key, now_ms + self._expiry_interval_ms, self._expire)

        def is_due(coordinator: TransactionCoordinator) -> bool:
            next_ms = coordinator.next_expiry_ms()
            return next_ms is not None and next_ms <= now_ms

        def due(is_any: bool) -> None:
            if not is_any and now_ms < self._forgets_at_ms:
                return
            self._forgets_at_ms = now_ms + self._forgetting_interval_ms
            self._runtime.change(plan, expired, _ignore)

        def plan(
            coordinator: TransactionCoordinator,
        ) -> CoordinatorResult[TransactionRecord, tuple[EndingTransaction, ...]]:
            planned = coordinator.plan_expire(now_ms)
            forgotten = [record.transactional_id for record in planned.records if record.value is None]
            for transactional_id in forgotten:
                self._renewals.pop(transactional_id, None)
            if len(forgotten) >= MAX_EXPIRED_ID_COUNT:
                self._forgets_at_ms = now_ms
            return planned

        def expired(endings: Sequence[EndingTransaction]) -> None:
            for ending in endings:
                _log.info("transactional_id=%s timed out, aborting its transaction", ending.transactional_id)
            self._send(endings)

        self._runtime.look(is_due, due, _ignore)

    def _note_renewal(
        self, transactional_id: str, asked: ProducerIdAndEpoch | None, given: ProducerIdAndEpoch | None
    ) -> None:
        if given is None:
            return
        if asked is None:
            self._renewals.pop(transactional_id, None)
        elif asked != given:
            self._renewals[transactional_id] = Renewal(asked=asked, given=given)


def _ignore(_: object) -> None:
    return None
