"""Between the requests about groups and the coordinator of `__consumer_offsets`: tickets, timers, expiry.

    request(event, on_reply, on_error)     gives the request a ticket; the answer comes with this event or a later one
    look(question, on_reply, on_error)     asks without changing anything
    start()                                  once the node is up: sessions begin when the log is loaded

When the runtime throws a coordinator away, because its log refused records, whoever was parked in it is answered with
COORDINATOR_NOT_AVAILABLE and looks for the coordinator anew; the one built from the log gives its members new sessions.
That it is another one is noticed by the next event, and at once after an event that failed.
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
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import ProducerIdAndEpoch
from broker_core.ports import Clock, Entropy

_log: Final = logging.getLogger(__name__)

_LOADING_RETRY_MS: Final = 100
_BEGIN: Final = ("groups", "begin")
_EXPIRE: Final = ("groups", "expire offsets")
_EXPIRE_STEP: Final = ("groups", "expire offsets of more groups")
_GROUPS_AT_A_TIME: Final = 100

Answer = TypeVar("Answer")
Event = Callable[[GroupCoordinator, int, int], GroupResult]
"""(coordinator, ticket, now_ms): one of the coordinator's `on_…`."""


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
    """A request without an answer. `is_parked`: its event is durable, so the runtime will say nothing more of it."""

    on_reply: Callable[[Any], None]
    on_error: OnError
    coordinator: GroupCoordinator | None = None
    is_parked: bool = False


class GroupService:
    """On the node's loop. `expiry_interval_ms`: offsets.retention.check.interval.ms."""

    def __init__(self, runtime: GroupRuntime, timers: TimerQueue, clock: Clock, *, expiry_interval_ms: int) -> None:
        self._runtime = runtime
        self._timers = timers
        self._clock = clock
        self._expiry_interval_ms = expiry_interval_ms
        self._tickets = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._begun: GroupCoordinator | None = None
        """The coordinator whose members have sessions."""

    @property
    def waiting_count(self) -> int:
        """Requests that are parked or on their way to the disk."""
        return len(self._waiting)

    def start(self) -> None:
        self._begin(self._clock.now_ms())
        self._timers.set(_EXPIRE, self._clock.now_ms() + self._expiry_interval_ms, self._expire)

    def request(
        self,
        event: Event,
        on_reply: Callable[[Any], None],
        on_error: OnError,
        *,
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        """`on_reply` is called once with the event's reply value, now or later, or `on_error` is.

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
        """The answer holds when everything that the coordinator knew is durable."""
        self._runtime.look(question, on_reply, on_error)

    def forget_topic(self, topic: str, *, topic_id: UUID | None = None) -> None:
        """The topic was deleted: nobody has offsets in it any more."""
        self._run(
            lambda coordinator, now_ms: coordinator.forget_topic(topic, topic_id=topic_id),
            f"topic {topic}",
            is_divisible=True,
        )

    def topics_changed(self) -> None:
        """Topics were made, deleted, or have grown: groups of KIP-848 may be to share out others than before."""
        self._run(lambda coordinator, now_ms: coordinator.on_topics_changed(now_ms), "change of topics")

    # -- what happens by itself --

    def _begin(self, now_ms: int) -> None:
        """Gives sessions to the members of a coordinator that is new here; gives up who waited in the one before."""

        def plan(coordinator: GroupCoordinator) -> GroupResult:
            if coordinator is self._begun:
                return CoordinatorResult(reply=GroupEffects())
            self._begun = coordinator
            return coordinator.on_loaded(self._clock.now_ms())

        def done(effects: GroupEffects) -> None:
            self._deliver(effects)
            self._abandon()

        def refused(error: StreamlogError) -> None:
            self._begun = None
            self._timers.set(_BEGIN, self._clock.now_ms() + _LOADING_RETRY_MS, self._begin)

        self._runtime.change(plan, done, refused)

    def _expire(self, now_ms: int) -> None:
        self._timers.set(_EXPIRE, now_ms + self._expiry_interval_ms, self._expire)
        self._runtime.look(GroupCoordinator.group_ids, self._expire_step, _ignore)

    def _expire_step(self, group_ids: tuple[str, ...]) -> None:
        """Of some groups, then of the others: requests come in between, and no batch of tombstones is too large."""
        now, later = group_ids[:_GROUPS_AT_A_TIME], group_ids[_GROUPS_AT_A_TIME:]
        self._run(lambda coordinator, now_ms: coordinator.plan_expire_offsets(now_ms, now), "expiry of offsets")
        if later:
            self._timers.set(_EXPIRE_STEP, self._clock.now_ms(), lambda now_ms: self._expire_step(later))

    def _on_timer(self, key: str) -> None:
        self._run(lambda coordinator, now_ms: coordinator.on_timer(key, now_ms), f"timer {key}")

    def _run(
        self, event: Callable[[GroupCoordinator, int], GroupResult], what: str, *, is_divisible: bool = False
    ) -> None:
        def plan(coordinator: GroupCoordinator) -> GroupResult:
            self._notice(coordinator)
            return event(coordinator, self._clock.now_ms())

        def refused(error: StreamlogError) -> None:
            if error.error_code is not ErrorCode.coordinator_load_in_progress:
                _log.warning("group coordinator: %s failed: %s", what, error)
            self._check_after(error)

        self._runtime.change(plan, self._deliver, refused, is_divisible=is_divisible)

    def _notice(self, coordinator: GroupCoordinator) -> None:
        if coordinator is not self._begun:
            self._timers.set(_BEGIN, self._clock.now_ms(), self._begin)

    def _check_after(self, error: StreamlogError) -> None:
        """The coordinator may be gone. One that is still there says so."""
        if error.error_code is not ErrorCode.coordinator_load_in_progress:
            self._timers.set(_BEGIN, self._clock.now_ms(), self._begin)

    def _abandon(self) -> None:
        lost = [
            ticket
            for ticket, waiting in self._waiting.items()
            if waiting.is_parked and waiting.coordinator is not self._begun
        ]
        for ticket in lost:
            error = StreamlogError("The coordinator's log failed while the request was waiting: ask again.")
            error.error_code = ErrorCode.coordinator_not_available
            log_callback_errors("an answer about a group", self._waiting.pop(ticket).on_error, error)

    def _deliver(self, effects: GroupEffects) -> None:
        for timer in effects.timers:
            if timer.at_ms is None:
                self._timers.cancel(("groups", timer.key))
            else:
                self._timers.set(("groups", timer.key), timer.at_ms, self._caller(timer.key))
        for answer in effects.answers:
            waiting = self._waiting.pop(answer.ticket, None)
            if waiting is not None:
                log_callback_errors("an answer about a group", waiting.on_reply, answer.reply)

    def _caller(self, key: str) -> Callable[[int], None]:
        return lambda now_ms: self._on_timer(key)


def _ignore(_: object) -> None:
    return None


def member_id_source(entropy: Entropy) -> Callable[[], str]:
    """`new_id` of a GroupCoordinator: random UUIDs, as Kafka's member ids end in."""
    return lambda: str(UUID(bytes=entropy.random_bytes(16), version=4))
