"""Admits appends that open their transaction implicitly (transactions version 2, KIP-890).

A client of version 2 writes as soon as the end of its last transaction is decided, while markers of that end are still
missing. So its append waits up to a second for the end to complete; after that it gets a retriable error, as in Kafka.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable
from typing import Final

from broker_core.broker.callback_errors import OnError
from broker_core.broker.coordination.coordinator_runtime import CoordinatorRuntime
from broker_core.broker.timer_queue import TimerQueue
from broker_core.cluster import TransactionalProducer
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.model.exceptions import ConcurrentTransactionsError, StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.ports import Clock
from broker_core.txn.transaction_coordinator import TransactionCoordinator
from broker_core.txn.txn_records import TransactionRecord

_WAIT_MS: Final = 1_000


class AppendAdmission:
    """The waiting appends of one coordinator. Call `wake` when a transaction of the id is complete. `number`: the
    partition's."""

    def __init__(
        self,
        runtime: CoordinatorRuntime[TransactionCoordinator, TransactionRecord],
        timers: TimerQueue,
        clock: Clock,
        *,
        number: int = 0,
    ) -> None:
        self._number = number
        self._runtime = runtime
        self._timers = timers
        self._clock = clock
        self._numbers = itertools.count()
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    def add(
        self,
        producer: TransactionalProducer,
        partitions: Collection[TopicPartition],
        on_ready: Callable[[], None],
        on_error: OnError,
    ) -> None:
        """Adds the partitions to the producer's transaction. Calls `on_ready` or `on_error`, once."""
        key: Hashable = ("transactions admission", self._number, next(self._numbers))
        until_ms = self._clock.now_ms() + _WAIT_MS
        is_over = False

        def end() -> bool:
            nonlocal is_over
            was_over, is_over = is_over, True
            self._timers.cancel(key)
            return not was_over

        def plan(coordinator: TransactionCoordinator) -> CoordinatorResult[TransactionRecord, None]:
            try:
                return coordinator.plan_add_partitions(producer, partitions, now_ms=self._clock.now_ms())
            except ConcurrentTransactionsError:
                # Registered in the plan, where the end is certainly not complete: `refused` may be called later.
                self._waiting.setdefault(producer.transactional_id, []).append(attempt)
                raise

        def done(_: None) -> None:
            if end():
                on_ready()

        def give_up(error: StreamlogError) -> None:
            if end():
                on_error(error)

        def refused(error: StreamlogError) -> None:
            if not isinstance(error, ConcurrentTransactionsError):
                give_up(error)
            elif not is_over:
                self._timers.set(key, until_ms, lambda now_ms: give_up(error))

        def attempt() -> None:
            if not is_over:
                self._runtime.change(plan, done, refused)

        attempt()

    def wake(self, transactional_id: str) -> None:
        for attempt in self._waiting.pop(transactional_id, ()):
            attempt()

    def wake_all(self) -> None:
        """The coordinator was reloaded: the ends that they wait for may have been lost."""
        for transactional_id in tuple(self._waiting):
            self.wake(transactional_id)
