"""Runs one coordinator on the broker: its plans, its log, and the answers that wait for the disk.

    change(plan)      runs the plan on the state, which includes all earlier records, durable or not
                      └─ records: replayed at once ─► batch ─► waits for the append under way ─► Replica.append
                      └─ none:    the answer waits until all records in the state are durable
    appended          delivers the answers of that append, in order; then appends the batches that were added since

The runtime is the only writer of its partition, so it knows the offsets of its records in advance. One append is under
way at a time; the next one has the batches of all changes planned in between. So a batch is never in the log without
the batches that its plan depends on.

When an append fails, the changes planned since may be missing in the log. All waiting answers become
CoordinatorNotAvailableError, refusals too, because they may depend on lost changes. The state is discarded and rebuilt
from the log. So no client ever sees a state that is lost later.

A new leader of the partition may have records that are not committed. They are in the state, and another leader could
lose them: until the high watermark has passed them, requests wait, and nothing is planned.

On a node alone the topic is created with the first record; until then the state is empty, and questions are answered
immediately. When it is deleted, the waiting answers become CoordinatorNotAvailableError too, and the state is empty
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

from broker_core.broker.callback_errors import OnError, log_all_callback_errors, log_callback_errors
from broker_core.broker.coordination.append_checks import check_producer, check_size
from broker_core.broker.coordination.commit_wait import CommitWait
from broker_core.broker.coordination.coordinator_appends import CoordinatorAppends
from broker_core.broker.coordination.coordinator_loading import CoordinatorLoading
from broker_core.broker.coordination.held_answer import HeldAnswer, planned, refused
from broker_core.broker.coordination.internal_topic import InternalTopic
from broker_core.broker.coordination.runtime_states import RuntimeState, assert_may_follow
from broker_core.broker.partition.replica import Replica
from broker_core.broker.timer_queue import TimerQueue
from broker_core.cluster import AppendResult
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.coordinator.coordinator_kind import NO_PRODUCER, CoordinatorKind
from broker_core.log.append_request import AppendRequest
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import (
    CoordinatorError,
    CoordinatorLoadingError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    ReplicaError,
    StreamlogError,
    UnknownTopicError,
)
from broker_core.model.identifiers import ProducerIdAndEpoch
from broker_core.ports import Clock, Jobs
from broker_core.record.control_records import EndTransactionMarker, build_end_transaction_marker

State = TypeVar("State")
Record = TypeVar("Record")
Reply = TypeVar("Reply")

_log: Final = logging.getLogger(__name__)

_MAX_DIVISIBLE_COUNT: Final = 2_000
"""The most records in a batch of a divisible change: that many tombstones take a fifth of the largest batch size."""
_LOAD_RETRY_MS: Final = 1_000
_ANSWERING: Final = "a coordinator's reply"


class CoordinatorRuntime(Generic[State, Record]):
    """Runs on the node's loop; its states and their order are in `runtime_states`. Call `load()` first; callbacks may
    run before a call returns."""

    def __init__(
        self, kind: CoordinatorKind[State, Record], topic: InternalTopic, jobs: Jobs, timers: TimerQueue, clock: Clock
    ) -> None:
        self._kind = kind
        self._partition = kind.partition
        self._topic = topic
        self._jobs = jobs
        self._timers = timers
        self._clock = clock
        self._runtime_state = RuntimeState.LOADING
        self._load_key = ("load coordinator", kind.partition)
        self._load_count = 0
        """Which load is under way: an earlier one that ends late is ignored."""
        self.is_elsewhere = False
        """Another broker leads the partition."""
        self._loaded_state: State | None = None
        self._replica: Replica | None = None
        """The topic's partition, once it exists and its log was read."""
        self._appends = CoordinatorAppends(next_offset=0)
        self._until_made: list[Callable[[], None]] = []
        """Changes to plan once the topic is created. Each creation has a new list."""
        self._commit_wait: CommitWait | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def is_loaded(self) -> bool:
        return self._runtime_state not in (RuntimeState.LOADING, RuntimeState.AWAITING_COMMIT)

    @property
    def _state(self) -> State:
        assert self._loaded_state is not None, f"{self._partition}: the coordinator is not loaded"
        return self._loaded_state

    def on_loaded(self, callback: Callable[[], None]) -> None:
        """Called on the loop after each load: at the start and after a failed append."""
        self._listeners.append(callback)

    # -- questions and changes --

    def look(self, question: Callable[[State], Reply], on_reply: Callable[[Reply], None], on_error: OnError) -> None:
        """Answers a question on the state without a change; what it reads is durable when `on_reply` is called."""
        if self._must_wait(partial(self.look, question, on_reply, on_error)):
            return
        if not self.is_loaded:
            on_error(self._loading())
            return
        answer = planned(self._partition, lambda: CoordinatorResult(reply=question(self._state)), on_reply, on_error)[1]
        self._appends.hold(answer)

    def peek(self, question: Callable[[State], Reply], unknown: Reply) -> Reply:
        """The answer of the current state, durable or not; `unknown` until it is loaded."""
        return question(self._state) if self.is_loaded else unknown

    def change(
        self,
        plan: Callable[[State], CoordinatorResult[Record, Reply]],
        on_reply: Callable[[Reply], None],
        on_error: OnError,
        *,
        producer: ProducerIdAndEpoch | None = None,
        is_divisible: bool = False,
    ) -> None:
        """Returns the plan's reply once its records, and all it depends on, are durable: one batch, all or nothing.

        `producer`: the batch is part of its transaction. `is_divisible`: each record is valid without the others, and
        too many for one batch are split into several. `on_error` gets the plan's error, RecordTooLargeError,
        ProducerFencedError, CoordinatorLoadingError or CoordinatorNotAvailableError: after the last one the change may
        or may not be in the log.
        """
        again = partial(self.change, plan, on_reply, on_error, producer=producer, is_divisible=is_divisible)
        if self._must_wait(again, is_change=True):
            return
        if not self.is_loaded:
            on_error(self._loading())
            return
        records, held = planned(self._partition, lambda: plan(self._state), on_reply, on_error)
        if not records:
            self._appends.hold(held)
        elif self._replica is None:
            self._make(lambda: self._write(records, held, producer or NO_PRODUCER), held)
        else:
            while is_divisible and len(records) > _MAX_DIVISIBLE_COUNT:
                part, records = records[:_MAX_DIVISIBLE_COUNT], records[_MAX_DIVISIBLE_COUNT:]
                self._write(part, HeldAnswer(deliver=lambda: None, refuse=lambda _: None), producer or NO_PRODUCER)
            self._write(records, held, producer or NO_PRODUCER)

    def append_marker(
        self,
        producer: ProducerIdAndEpoch,
        marker: EndTransactionMarker,
        on_done: Callable[[], None],
        on_error: OnError,
    ) -> None:
        """Ends the producer's transaction in this log. Without the topic there is nothing to end.

        Raises nothing: `on_error` gets ProducerFencedError, CoordinatorFencedError and the errors of `change`.
        """
        if self._must_wait(partial(self.append_marker, producer, marker, on_done, on_error), is_change=True):
            return
        if not self.is_loaded:
            on_error(self._loading())
            return
        held = HeldAnswer(deliver=on_done, refuse=on_error)
        if self._replica is None:
            self._appends.hold(held)
            return
        try:
            check_producer(self._replica, self._appends, producer, marker)
        except StreamlogError as refusal:
            self._appends.hold(refused(refusal, on_error))
            return
        self._kind.replay_marker(self._state, producer.producer_id, marker.is_commit)
        batch = build_end_transaction_marker(
            marker,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            timestamp_ms=self._clock.now_ms(),
        )
        self._append(batch, 1, held, producer)

    def _must_wait(self, request: Callable[[], None], *, is_change: bool = False) -> bool:
        """Whether the request is repeated later: when the topic is created, or what was loaded is committed."""
        if is_change and self._runtime_state is RuntimeState.MAKING_TOPIC:
            self._until_made.append(request)
            return True
        waiting = self._commit_wait
        if waiting is None or waiting.is_late:
            return False
        waiting.requests.append(request)
        return True

    # -- the log --

    def _write(self, records: tuple[Record, ...], held: HeldAnswer, producer: ProducerIdAndEpoch) -> None:
        assert self._replica is not None
        batch = self._kind.new_batch(records, timestamp_ms=self._clock.now_ms(), producer=producer)
        try:
            check_size(self._replica, batch)
            check_producer(self._replica, self._appends, producer, None)
        except StreamlogError as refusal:
            self._appends.hold(refused(refusal, held.refuse))
            return
        for offset, record in enumerate(records, self._appends.next_offset):
            self._kind.replay(self._state, record, offset, producer.producer_id)
        self._append(batch, len(records), held, producer)

    def _append(self, batch: bytearray, record_count: int, held: HeldAnswer, producer: ProducerIdAndEpoch) -> None:
        """The state has replayed the batch already."""
        self._appends.add(batch, record_count, held, producer)
        if self._runtime_state is RuntimeState.DURABLE:
            self._append_next()

    def _append_next(self) -> None:
        append = self._appends.take_next()
        if append is None:
            return
        assert self._replica is not None
        self._transition_to(RuntimeState.APPENDING)
        self._replica.append(
            AppendRequest(
                batches=append.batches,
                origin=AppendOrigin.COORDINATOR,
                on_done=partial(self._appended, self._appends),
                on_error=partial(self._append_failed, self._appends),
            )
        )

    def _appended(self, appends: CoordinatorAppends, result: AppendResult) -> None:
        if appends is not self._appends:
            # The topic was deleted meanwhile, and the answers were refused.
            return
        append = appends.under_way
        if result.base_offset != append.base_offset:
            # Another writer has appended. The log is the truth: reload it, and refuse every waiting request.
            mismatch = StreamlogError(f"offset {result.base_offset} instead of {append.base_offset}")
            self._append_failed(appends, mismatch)
            return
        # Still APPENDING: changes that the answers cause join the next append.
        for held in append.held:
            log_callback_errors(_ANSWERING, held.deliver)
        self._appends.end_append()
        self._transition_to(RuntimeState.DURABLE)
        self._append_next()

    def _append_failed(self, appends: CoordinatorAppends, error: StreamlogError) -> None:
        if appends is self._appends:
            _log.error("partition=%s: append failed, reloading the coordinator: %s", self._partition, error)
            self._reload(error)

    def _reload(self, error: StreamlogError) -> None:
        lost = self._appends.all_held()
        waiting = self._commit_wait
        self.load()
        if waiting is not None:
            waiting.repeat()
        refusal = CoordinatorNotAvailableError(f"{self._partition} could not be written: {error}")
        for held in lost:
            log_callback_errors(_ANSWERING, held.refuse, refusal)

    # -- creating and loading --

    def load(self) -> None:
        """Builds the state from the log. Called once at the start; the runtime repeats it after each failure."""
        self._transition_to(RuntimeState.LOADING)
        self._timers.cancel(self._load_key)
        if self._commit_wait is not None:
            self._commit_wait.end()
        self._commit_wait = self._loaded_state = None
        self._replica, self._appends = None, CoordinatorAppends(next_offset=0)
        self._load_count += 1
        load_number, self.is_elsewhere = self._load_count, False
        try:
            replica = self._topic.replica()
        except ReplicaError:
            self.is_elsewhere = True
            return
        except StreamlogError as error:
            self._not_loaded(error)
            return
        if replica is None:
            self._loaded(RuntimeState.WITHOUT_TOPIC, self._kind.begin())
            return

        def loaded(state: State, next_offset: int) -> None:
            if load_number != self._load_count:
                return
            if not self._topic.is_current(replica):
                self.load()
                return
            self._open(replica, next_offset)
            self._await_commit(replica, next_offset, state)

        def failed(error: Exception) -> None:
            if load_number == self._load_count:
                self._not_loaded(error)

        CoordinatorLoading(self._kind, replica, self._jobs, on_loaded=loaded, on_error=failed).start()

    def _await_commit(self, replica: Replica, until_offset: int, state: State) -> None:
        waiting = CommitWait(replica, until_offset, self._timers, self._clock)

        def committed() -> None:
            self._commit_wait = None
            self._loaded(RuntimeState.DURABLE, state)
            waiting.repeat()

        self._transition_to(RuntimeState.AWAITING_COMMIT)
        self._commit_wait = waiting
        waiting.start(committed, self._reload)

    def change_role(self) -> None:
        """The partition is led in a new epoch, here or by another broker."""
        self._reload(NotCoordinatorError(f"{self._partition} is led in a new epoch."))

    def release_topic(self, check: Callable[[State], None], on_released: Callable[[], None], on_error: OnError) -> None:
        """For a topic that is to be deleted: calls `on_released` when nothing is being written and `check` raises
        nothing. From then on every request is refused as while loading, until the topic is gone or `load` is called.

        `on_error` gets the error of `check` and CoordinatorLoadingError.
        """

        def durable(_: None) -> None:
            if self._runtime_state in (RuntimeState.APPENDING, RuntimeState.MAKING_TOPIC):
                # Changes that were planned since may have made `check` untrue.
                key = ("release topic", self._partition, on_released)
                self._timers.set(
                    key, self._clock.now_ms(), lambda now_ms: self.release_topic(check, on_released, on_error)
                )
                return
            self._transition_to(RuntimeState.LOADING)
            on_released()

        self.look(check, durable, on_error)

    def topic_changed(self) -> None:
        """Call this after each change of topics. If the topic was deleted, the state is empty from now on."""
        if self._replica is not None and not self._topic.is_current(self._replica):
            _log.info("partition=%s: the topic was deleted, and with it the coordinator's state", self._partition)
            self._reload(UnknownTopicError(f"Topic {self._partition.topic} was deleted."))

    def _open(self, replica: Replica, next_offset: int) -> None:
        self._replica, self._appends = replica, CoordinatorAppends(next_offset=next_offset)

    def _loaded(self, runtime_state: RuntimeState, state: State) -> None:
        self._loaded_state = state
        self._transition_to(runtime_state)
        log_all_callback_errors(_ANSWERING, self._listeners)

    def _not_loaded(self, error: Exception) -> None:
        _log.error("partition=%s: loading the coordinator failed, will retry: %s", self._partition, error)
        self._timers.set(self._load_key, self._clock.now_ms() + _LOAD_RETRY_MS, lambda now_ms: self.load())

    def _make(self, then: Callable[[], None], held: HeldAnswer) -> None:
        """Creates the topic; changes that arrive in the meantime are planned after `then`."""
        self._transition_to(RuntimeState.MAKING_TOPIC)
        waiting = self._until_made = []
        load_number = self._load_count

        def opened(replica: Replica) -> None:
            if load_number != self._load_count:
                failed(CoordinatorNotAvailableError("it is being loaded"))
                return
            if not self._topic.is_current(replica):
                failed(CoordinatorNotAvailableError("the topic was deleted"))
                return
            self._open(replica, 0)
            self._transition_to(RuntimeState.DURABLE)
            then()
            log_all_callback_errors(_ANSWERING, waiting)

        def failed(error: StreamlogError) -> None:
            if load_number == self._load_count:  # else the partition got a leader, and with it a load of its own
                self.load()
            held.refuse(CoordinatorNotAvailableError(f"{self._partition} could not be created: {error}"))
            log_all_callback_errors(_ANSWERING, waiting)

        self._topic.make(opened, failed)

    def _transition_to(self, runtime_state: RuntimeState) -> None:
        assert_may_follow(runtime_state, self._runtime_state, self._partition)
        self._runtime_state = runtime_state

    def _loading(self) -> CoordinatorError:
        if self.is_elsewhere:
            return NotCoordinatorError(f"{self._partition} is led by another broker, which has its coordinator.")
        return CoordinatorLoadingError(f"{self._partition} is being loaded: retry the request.")
