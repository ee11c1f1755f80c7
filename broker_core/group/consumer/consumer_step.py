"""One event at one KIP-848 group: the records that it has written so far, and the timers that it sets.

A session timer runs for each member, a rebalance timer for one that has to revoke partitions. The valid deadlines are
kept with the group's soft state: a timer that fires after its deadline was moved does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from broker_core.coordinator.contract import CoordinatorResult
from broker_core.coordinator.record_fields import fits_string
from broker_core.group.consumer.consumer_assignors import MemberSpec, assign
from broker_core.group.consumer.consumer_group import ConsumerGroup
from broker_core.group.consumer.consumer_member import ConsumerMember
from broker_core.group.consumer.consumer_settings import ConsumerGroupSettings
from broker_core.group.consumer_group_records import (
    ConsumerGroupRecord,
    ConsumerRecordType,
    ConsumerRecordValue,
    GroupEpoch,
    Partitions,
    TargetEpoch,
    TargetOfMember,
)
from broker_core.group.coordinator_records import AnyGroupRecord
from broker_core.group.group_effects import Answer, GroupEffects, GroupResult, TimerChange
from broker_core.group.topic_view import TopicView

SESSION: Final = "consumer-session"
"""Deadline of a member's next heartbeat."""

REBALANCE: Final = "consumer-rebalance"
"""Deadline for a member to revoke partitions."""

JOIN: Final = "consumer-join"
"""Deadline for a classic member to rejoin."""

SYNC: Final = "consumer-sync"
"""Deadline for a classic member that joined to ask for its assignment."""

REGEX: Final = "consumer-regex"
"""Fires at once: regular expressions of the group have to be resolved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerTimer:
    """Key: `<kind>:<characters of the group id>:<group id>:<member id>`, unambiguous for any ids."""

    kind: str
    group_id: str
    member_id: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind}:{len(self.group_id)}:{self.group_id}:{self.member_id}"


def consumer_timer(key: str) -> ConsumerTimer:
    kind, count, rest = key.split(":", 2)
    return ConsumerTimer(kind=kind, group_id=rest[: int(count)], member_id=rest[int(count) + 1 :])


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerWorld:
    """Shared by all groups of a coordinator. `settings_of` returns a group's current settings. `deadlines` by timer
    key; a timer that is missing was cancelled."""

    topics: TopicView
    settings: ConsumerGroupSettings
    settings_of: Callable[[str], ConsumerGroupSettings]
    deadlines: dict[str, int]


class ConsumerStep:
    """The group is as it was before the event, until the runner replays the records."""

    def __init__(self, group: ConsumerGroup, world: ConsumerWorld, now_ms: int) -> None:
        self.group = group
        self.world = world
        self.settings = world.settings_of(group.group_id)
        self.now_ms = now_ms
        self.records: list[AnyGroupRecord] = []
        self._answers: list[Answer] = []
        self._timers: list[TimerChange] = []

    def result(self) -> GroupResult:
        effects = GroupEffects(answers=tuple(self._answers), timers=tuple(self._timers))
        return CoordinatorResult(records=tuple(self.records), reply=effects)

    def answer(self, ticket: int, reply: object) -> None:
        self._answers.append(Answer(ticket=ticket, reply=reply))

    # -- records --

    def store(self, kind: ConsumerRecordType, item: str = "", value: ConsumerRecordValue | None = None) -> None:
        """None writes a tombstone."""
        self.records.append(ConsumerGroupRecord(type=kind, group_id=self.group.group_id, item=item, value=value))

    def store_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.store(ConsumerRecordType.GROUP, value=GroupEpoch(epoch=epoch, metadata_hash=metadata_hash))

    def restore_member(self, member_id: str) -> None:
        self.store(ConsumerRecordType.CURRENT_OF_MEMBER, member_id)
        self.store(ConsumerRecordType.TARGET_OF_MEMBER, member_id)
        self.store(ConsumerRecordType.MEMBER, member_id)

    def store_target(self, epoch: int, members: Mapping[str, ConsumerMember]) -> dict[str, Partitions]:
        """Computes the target assignment of `members`; stores the differences and the epoch."""
        settings, topics = self.settings, self.world.topics
        specs = {
            member_id: MemberSpec(
                topics=topics.ids_of(self.group.topic_names((member,))),
                target=self.group.target_of(member),
                instance_id=member.instance_id,
            )
            for member_id, member in members.items()
        }
        wanted = frozenset().union(*(spec.topics for spec in specs.values()))
        assignor = self.group.assignor(members.values(), settings.assignors[0])
        found = assign(assignor, specs, topics.partition_counts(wanted))
        for member_id in members:
            target = found.setdefault(member_id, {})
            if self.group.targets.get(member_id) != target:
                self.store(ConsumerRecordType.TARGET_OF_MEMBER, member_id, TargetOfMember(partitions=target))
        self.store(ConsumerRecordType.TARGET, value=TargetEpoch(epoch=epoch, computed_ms=self.now_ms))
        return found

    # -- timers --

    def set_timer(self, kind: str, member_id: str, at_ms: int) -> None:
        key = ConsumerTimer(kind=kind, group_id=self.group.group_id, member_id=member_id).key
        self.world.deadlines[key] = at_ms
        self._timers.append(TimerChange(key=key, at_ms=at_ms))

    def set_foreign_timer(self, key: str) -> None:
        """A timer that fires at once and whose deadline is not tracked."""
        self._timers.append(TimerChange(key=key, at_ms=self.now_ms))

    def is_timer_set(self, kind: str, member_id: str) -> bool:
        return ConsumerTimer(kind=kind, group_id=self.group.group_id, member_id=member_id).key in self.world.deadlines

    def cancel_timers(self, member_id: str, kinds: Iterable[str] = (SESSION, REBALANCE, JOIN, SYNC)) -> None:
        for kind in kinds:
            key = ConsumerTimer(kind=kind, group_id=self.group.group_id, member_id=member_id).key
            if self.world.deadlines.pop(key, None) is not None:
                self._timers.append(TimerChange(key=key, at_ms=None))

    def expect_heartbeat(self, member: ConsumerMember) -> None:
        classic = member.metadata.classic
        timeout_ms = self.settings.session_timeout_ms if classic is None else classic.session_timeout_ms
        self.set_timer(SESSION, member.member_id, self.now_ms + timeout_ms)


def fit_in_records(texts: Iterable[str | None]) -> bool:
    return all(text is None or fits_string(text) for text in texts)
