"""The effects of an event at the group coordinator besides records: answers, and timers to set.

    runner                                            coordinator
    on_join(ticket 7, request, now_ms)           ->   the group is rebalancing: 7 stays parked, a session timer is set
    on_timer("classic-join:1:g", now_ms)         ->   the rebalance is over: 7 and all other parked joins are answered

A ticket is a number that the runner gives to a request. Each is answered exactly once, by the event that it came with
or by a later one. The answers hold once the event's records, and everything appended before them, are durable.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.coordinator.contract import CoordinatorResult
from broker_core.group.coordinator_records import AnyGroupRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`reply` is the reply type of the request that was given `ticket`: JoinReply, CommitReply, …"""

    ticket: int
    reply: object


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerChange:
    """The runner calls `on_timer(key, now_ms)` at `at_ms`, once; None cancels. A later change of a key replaces it."""

    key: str
    at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEffects:
    answers: tuple[Answer, ...] = ()
    timers: tuple[TimerChange, ...] = ()


GroupResult = CoordinatorResult[AnyGroupRecord, GroupEffects]
"""Of every event."""


def answered(ticket: int, reply: object, records: tuple[AnyGroupRecord, ...] = ()) -> GroupResult:
    """An event that answers only its own request."""
    effects = GroupEffects(answers=(Answer(ticket=ticket, reply=reply),))
    return CoordinatorResult(records=records, reply=effects)


def joined(*results: GroupResult) -> GroupResult:
    """Joins several events into one, in their order."""
    return CoordinatorResult(
        records=tuple(record for result in results for record in result.records),
        reply=GroupEffects(
            answers=tuple(answer for result in results for answer in result.reply.answers),
            timers=tuple(timer for result in results for timer in result.reply.timers),
        ),
    )
