"""The record of one partition when its in-sync replicas, its assignment or the brokers change.

The steps and their order are those of Kafka's PartitionChangeBuilder:

    1  a reassignment that is complete ends
    2  eligible leader replicas (KIP-966): below min.insync.replicas a replica that leaves the ISR stays eligible,
       unless it was shut down uncleanly, or leaves the assignment, where Kafka keeps it: its log may be deleted
    3  election, among the ISR, or the eligible ones if the ISR is empty, of those that are acceptable
    4  a replica elected from the eligible ones, or uncleanly, is the new ISR
    5  the leader epoch grows also when a replica leaves the assignment, and below metadata.version 12 the ISR
    6  an ISR is empty only where there are eligible leader replicas
    7  the last known leader is remembered when the partition has none any more, and forgotten when it has one again

What differs from the partition as it is goes into the record; without a difference there is none.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from broker_core.metadata.metadata_records import PartitionChangeRecord
from broker_core.metadata.metadata_version import (
    DIRECTORY_ASSIGNMENT_LEVEL,
    SHRINK_KEEPS_EPOCH_LEVEL,
    partition_version,
)
from broker_core.metadata.partition_state import LEADER_UNCHANGED, NO_LEADER, PartitionState

RECOVERED: Final = 0
RECOVERING: Final = 1


class Election(enum.Enum):
    """The replicas that an election may choose."""

    ONLINE = enum.auto()
    """The leader stays if it can."""
    PREFERRED = enum.auto()
    """The first replica of the assignment, if it can lead."""
    UNCLEAN = enum.auto()
    """As ONLINE; where no replica in sync can lead, any replica that lives, which loses records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRules:
    """What the cluster says about a partition."""

    is_acceptable: Callable[[int], bool]
    """Whether a broker may lead it: it lives, and so does its directory."""
    min_insync_replicas: int
    level: int
    """Of metadata.version."""
    has_eligible_leaders: bool
    """Whether the feature eligible.leader.replicas is on."""
    default_directory: Callable[[int], UUID]
    """Of a replica that is new on a broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWish:
    """What is wanted; None keeps what is."""

    isr: tuple[int, ...] | None = None
    election: Election = Election.ONLINE
    unclean_brokers: frozenset[int] = frozenset()
    """Those that lost what was not on the device: they are neither in sync nor eligible."""
    recovery_state: int | None = None
    replicas: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    directory: tuple[int, UUID] | None = None
    """(broker, the directory of its replica)"""


def plan_partition_change(
    topic_id: UUID, number: int, state: PartitionState, rules: ChangeRules, target: PartitionWish
) -> PartitionChangeRecord | None:
    """None: nothing changes."""
    draft = _Draft(state, rules, target)
    draft.maybe_complete_reassignment()
    draft.choose_eligible()
    draft.elect()
    return draft.record(topic_id, number)


class _Draft:
    def __init__(self, state: PartitionState, rules: ChangeRules, target: PartitionWish) -> None:
        self._state, self._rules, self._target = state, rules, target
        self._isr = _given(target.isr, state.isr)
        self._replicas = _given(target.replicas, state.replicas)
        self._removing = _given(target.removing, state.removing_replicas)
        self._adding = _given(target.adding, state.adding_replicas)
        self._eligible = state.eligible_leader_replicas
        self._leader = state.leader
        self._recovery = state.leader_recovery_state if target.recovery_state is None else target.recovery_state

    def maybe_complete_reassignment(self) -> None:
        removing, adding = self._removing, self._adding
        if not removing and not adding:
            return
        isr = _without(self._isr, removing)
        replicas = _without(self._replicas, removing)
        is_smaller = len(removing) > len(adding)
        if not isr or not replicas or not set(adding) <= set(isr):
            return
        if is_smaller and not set(replicas) <= set(isr):
            return
        self._isr, self._replicas, self._removing, self._adding = isr, replicas, (), ()

    def choose_eligible(self) -> None:
        state, rules = self._state, self._rules
        if not rules.has_eligible_leaders:
            return
        if len(self._isr) >= min(rules.min_insync_replicas, len(self._replicas)):
            self._eligible = ()
            return
        candidates = {*state.eligible_leader_replicas, *state.isr} & set(self._replicas)
        self._eligible = tuple(sorted(candidates - {*self._isr} - self._target.unclean_brokers))

    # Election

    def elect(self) -> None:
        elected, is_unclean = self._elected()
        self._leader = elected
        if is_unclean:
            self._isr, self._eligible, self._recovery = (elected,), (), RECOVERING
        elif elected != NO_LEADER and elected not in self._isr:
            self._isr, self._eligible = (elected,), _without(self._eligible, (elected,))

    def _elected(self) -> tuple[int, bool]:
        """(the leader, whether it may lack records)"""
        state, is_acceptable = self._state, self._rules.is_acceptable
        for replica in self._candidates():
            if self._may_lead(replica):
                return replica, False
        last_known = state.last_known_elr
        is_abandoned = self._rules.has_eligible_leaders and not self._isr and not self._eligible
        if is_abandoned and len(last_known) == 1 and is_acceptable(last_known[0]):
            return last_known[0], True
        if self._target.election is Election.UNCLEAN:
            return next(((replica, True) for replica in self._replicas if is_acceptable(replica)), (NO_LEADER, False))
        return NO_LEADER, False

    def _candidates(self) -> Sequence[int]:
        if self._target.election is Election.PREFERRED:
            return (self._replicas[0], self._state.leader, *self._replicas[1:])
        return (self._state.leader, *self._replicas)

    def _may_lead(self, replica: int) -> bool:
        among = self._isr or self._eligible
        return replica in among and replica in self._replicas and self._rules.is_acceptable(replica)

    # The record

    def record(self, topic_id: UUID, number: int) -> PartitionChangeRecord | None:
        state, rules = self._state, self._rules
        is_written = self._isr != state.isr and (bool(self._isr) or rules.has_eligible_leaders)
        leader = self._leader if self._leader != state.leader or self._bumps_epoch(is_written) else LEADER_UNCHANGED
        record = PartitionChangeRecord(
            topic_id=topic_id,
            partition_id=number,
            isr=self._isr if is_written else None,
            leader=leader,
            replicas=_if_changed(self._replicas, state.replicas),
            removing_replicas=_if_changed(self._removing, state.removing_replicas),
            adding_replicas=_if_changed(self._adding, state.adding_replicas),
            leader_recovery_state=self._recovery if self._recovery != state.leader_recovery_state else -1,
            directories=self._directories(),
            eligible_leader_replicas=_if_changed(self._eligible, state.eligible_leader_replicas),
            last_known_elr=self._last_known(),
            version=partition_version(rules.level),
        )
        return None if record == _nothing(record) else record

    def _bumps_epoch(self, is_isr_written: bool) -> bool:
        state = self._state
        if not set(state.replicas) <= set(self._replicas):
            return True
        shrinks = is_isr_written and not set(state.isr) <= set(self._isr)
        return shrinks and self._rules.level < SHRINK_KEEPS_EPOCH_LEVEL

    def _directories(self) -> tuple[UUID, ...] | None:
        state = self._state
        if self._rules.level < DIRECTORY_ASSIGNMENT_LEVEL:
            return None
        known = dict(zip(state.replicas, state.directories, strict=True))
        if self._target.directory is not None:
            broker_id, directory = self._target.directory
            known[broker_id] = directory
        found = tuple(
            known[replica] if replica in known else self._rules.default_directory(replica) for replica in self._replicas
        )
        return found if self._replicas != state.replicas or found != state.directories else None

    def _last_known(self) -> tuple[int, ...] | None:
        """The leader before the partition became leaderless; recorded once."""
        state = self._state
        if not self._rules.has_eligible_leaders:
            return None
        if self._leader == NO_LEADER:
            return (state.leader,) if state.leader != NO_LEADER and not state.last_known_elr else None
        return () if state.last_known_elr else None


def _nothing(record: PartitionChangeRecord) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=record.topic_id, partition_id=record.partition_id, version=record.version)


def _given(wanted: tuple[int, ...] | None, current: tuple[int, ...]) -> tuple[int, ...]:
    return current if wanted is None else wanted


def _if_changed(now: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...] | None:
    return now if now != before else None


def _without(brokers: Sequence[int], gone: Collection[int]) -> tuple[int, ...]:
    return tuple(broker for broker in brokers if broker not in gone)
