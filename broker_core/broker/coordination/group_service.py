"""Connects group requests with the coordinator of a partition of `__consumer_offsets`: tickets, timers, expiry.

    request(event, on_reply, on_error)     assigns a ticket; the answer comes with this event or a later one
    look(question, on_reply, on_error)     answers a question without a change
    on_role()                                the coordinator begins or ends: sessions begin when its log is loaded

When an append fails, the runtime discards the coordinator. Requests that are parked in it are answered with
COORDINATOR_NOT_AVAILABLE, so their clients find the coordinator again; the reloaded one starts new sessions for its
members. The service detects a new coordinator at the next event, and immediately after a failed one. When another
broker leads the partition, it cancels the timers.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.broker.callback_errors import OnError, log_callback_errors
from broker_core.broker.timer_queue import TimerQueue
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.group.group_coordinator import GroupCoordinator
from broker_core.group.group_effects import GroupEffects, GroupResult
from broker_core.model.exceptions import NotCoordinatorError, StreamlogError
from broker_core.model.identifiers import ProducerIdAndEpoch
from broker_core.ports import Clock, Entropy

_log: Final = logging.getLogger(__name__)

_LOADING_RETRY_MS: Final = 100
_PASSING: Final = (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator)
_GROUPS_AT_A_TIME: Final = 100

Answer = TypeVar("Answer")
Event = Callable[[GroupCoordinator, int, int], GroupResult]
"""(coordinator, ticket, now_ms) -> result: one of the coordinator's `on_…` methods."""


class GroupRuntime(Protocol):
    """A CoordinatorRuntime of GroupCoordinator."""

    def change(
        self,
        plan: Callable[[GroupCoordinator], GroupResult],
        on_reply: Callable[[GroupEffects], None],
        on_error: OnError,
        *,
        producer: ProducerIdAndEpoch | None = None,
        is_divisible: bool = False,
    ) -> None: ...

    def look(
        self,
        question: Callable[[GroupCoordinator], Answer],
        on_reply: Callable[[Answer], None],
        on_error: OnError,
    ) -> None: ...


@dataclass(slots=True, kw_only=True)
class _Waiting:
    """An unanswered request. `is_parked`: its event is durable, so the runtime will not call back again."""

    on_reply: Callable[[Any], None]
    on_error: OnError
    coordinator: GroupCoordinator | None = None
    is_parked: bool = False


class GroupService:
    """Runs on the node's loop. `expiry_interval_ms`: offsets.retention.check.interval.ms. `number`: the partition's."""

    def __init__(
        self, runtime: GroupRuntime, timers: TimerQueue, clock: Clock, *, expiry_interval_ms: int, number: int = 0
    ) -> None:
        self._runtime = runtime
        self._begin_key = ("groups begin", number)
        self._expire_key = ("groups expire offsets", number)
        self._step_key = ("groups expire offsets of more groups", number)
        self._number = number
        self._timer_keys: set[str] = set()
        """Timers of the coordinator that are set."""
        self._timers = timers
        self._clock = clock
        self._expiry_interval_ms = expiry_interval_ms
        self._tickets = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._begun: GroupCoordinator | None = None
        """The coordinator whose members have sessions."""

    @property
    def waiting_count(self) -> int:
        """Requests that are parked or waiting for the disk."""
        return len(self._waiting)

    def request(
        self,
        event: Event,
        on_reply: Callable[[Any], None],
        on_error: OnError,
        *,
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        """Calls `on_reply` with the event's reply, or `on_error`: once, now or later.

        `producer`: the records are written in a batch of its transaction.
        """
        ticket = next(self._tickets)
        waiting = self._waiting[ticket] = _Waiting(on_reply=on_reply, on_error=on_error)

        def plan(coordinator: GroupCoordinator) -> GroupResult:
            waiting.coordinator = coordinator
            self._notice(coordinator)
            return event(coordinator, ticket, self._clock.now_ms())

        def done(effects: GroupEffects) -> None:
            waiting.is_parked = True
            self._deliver(effects)

        def refused(error: StreamlogError) -> None:
            if self._waiting.pop(ticket, None) is not None:
                on_error(error)
            self._check_after(error)

        self._runtime.change(plan, done, refused, producer=producer)

    def look(
        self,
        question: Callable[[GroupCoordinator], Answer],
        on_reply: Callable[[Answer], None],
        on_error: OnError,
    ) -> None:
        """The answer is delivered once everything in the coordinator's state is durable."""
        self._runtime.look(question, on_reply, on_error)

    def forget_topic(self, topic: str, *, topic_id: UUID | None = None) -> None:
        """The topic was deleted: removes the committed offsets of all groups in it."""
        self._run(
            lambda coordinator, now_ms: coordinator.forget_topic(topic, topic_id=topic_id),
            f"deletion of the offsets of topic {topic}",
            is_divisible=True,
        )

    def topics_changed(self) -> None:
        """Topics were created, deleted or extended: KIP-848 groups may need a new target assignment."""
        self._run(lambda coordinator, now_ms: coordinator.on_topics_changed(now_ms), "update after a change of topics")

    def on_role(self) -> None:
        """The coordinator is about to be loaded, or to be given up."""
        self._timers.set(self._begin_key, self._clock.now_ms(), self._begin)

    # -- timers --

    def _begin(self, now_ms: int) -> None:
        """Starts the sessions of a new coordinator's members; refuses the requests parked in the previous one."""

        def plan(coordinator: GroupCoordinator) -> GroupResult:
            if coordinator is self._begun:
                return CoordinatorResult(reply=GroupEffects())
            self._begun = coordinator
            for group_id in coordinator.foreign_groups:
                _log.warning("%s Its records are kept.", coordinator.foreign_groups.refusal_of(group_id))
            self._timers.set(self._expire_key, self._clock.now_ms() + self._expiry_interval_ms, self._expire)
            return coordinator.on_loaded(self._clock.now_ms())

        def done(effects: GroupEffects) -> None:
            self._deliver(effects)
            self._abandon(ErrorCode.coordinator_not_available)

        def refused(error: StreamlogError) -> None:
            self._begun = None
            if isinstance(error, NotCoordinatorError):
                self._abandon(ErrorCode.not_coordinator)
                self._cancel_timers()
                return
            self._timers.set(self._begin_key, self._clock.now_ms() + _LOADING_RETRY_MS, self._begin)

        self._runtime.change(plan, done, refused)

    def _expire(self, now_ms: int) -> None:
        self._timers.set(self._expire_key, now_ms + self._expiry_interval_ms, self._expire)
        self._runtime.look(GroupCoordinator.group_ids, self._expire_step, _ignore)

    def _expire_step(self, group_ids: tuple[str, ...]) -> None:
        """Expires offsets of some groups at a time: requests run in between, and no batch of tombstones is too
        large."""
        now, later = group_ids[:_GROUPS_AT_A_TIME], group_ids[_GROUPS_AT_A_TIME:]
        self._run(lambda coordinator, now_ms: coordinator.plan_expire_offsets(now_ms, now), "expiration of offsets")
        if later:
            self._timers.set(self._step_key, self._clock.now_ms(), lambda now_ms: self._expire_step(later))

    def _cancel_timers(self) -> None:
        for key in (self._expire_key, self._step_key, *map(self._timer_key, self._timer_keys)):
            self._timers.cancel(key)
        self._timer_keys.clear()

    def _timer_key(self, key: str) -> tuple[str, int, str]:
        return ("groups", self._number, key)

    def _on_timer(self, key: str) -> None:
        self._timer_keys.discard(key)
        self._run(lambda coordinator, now_ms: coordinator.on_timer(key, now_ms), f"timer {key}")

    def _run(
        self, event: Callable[[GroupCoordinator, int], GroupResult], what: str, *, is_divisible: bool = False
    ) -> None:
        def plan(coordinator: GroupCoordinator) -> GroupResult:
            self._notice(coordinator)
            return event(coordinator, self._clock.now_ms())

        def refused(error: StreamlogError) -> None:
            if error.error_code not in _PASSING:
                _log.warning("group coordinator: %s failed: %s", what, error)
            self._check_after(error)

        self._runtime.change(plan, self._deliver, refused, is_divisible=is_divisible)

    def _notice(self, coordinator: GroupCoordinator) -> None:
        if coordinator is not self._begun:
            self._timers.set(self._begin_key, self._clock.now_ms(), self._begin)

    def _check_after(self, error: StreamlogError) -> None:
        """The coordinator may have been discarded: checks it. If not, the check changes nothing."""
        if error.error_code is not ErrorCode.coordinator_load_in_progress:
            self._timers.set(self._begin_key, self._clock.now_ms(), self._begin)

    def _abandon(self, error_code: ErrorCode) -> None:
        lost = [
            ticket
            for ticket, waiting in self._waiting.items()
            if waiting.is_parked and waiting.coordinator is not self._begun
        ]
        for ticket in lost:
            error = StreamlogError("The coordinator was discarded while the request was waiting: retry it.")
            error.error_code = error_code
            log_callback_errors("a group coordinator's reply", self._waiting.pop(ticket).on_error, error)

    def _deliver(self, effects: GroupEffects) -> None:
        for timer in effects.timers:
            if timer.at_ms is None:
                self._timer_keys.discard(timer.key)
                self._timers.cancel(self._timer_key(timer.key))
            else:
                self._timer_keys.add(timer.key)
                self._timers.set(self._timer_key(timer.key), timer.at_ms, self._caller(timer.key))
        for answer in effects.answers:
            waiting = self._waiting.pop(answer.ticket, None)
            if waiting is not None:
                log_callback_errors("a group coordinator's reply", waiting.on_reply, answer.reply)

    def _caller(self, key: str) -> Callable[[int], None]:
        return lambda now_ms: self._on_timer(key)


def _ignore(_: object) -> None:
    return None


def member_id_source(entropy: Entropy) -> Callable[[], str]:
    """`new_id` for a GroupCoordinator: random UUIDs, like those at the end of Kafka's member ids."""
    return lambda: str(UUID(bytes=entropy.random_bytes(16), version=4))
