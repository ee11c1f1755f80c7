"""One member of a KIP-848 group, and the step that moves its assignment towards its target.

    STABLE                 has the target of its epoch                    -> a newer target: below
    UNREVOKED_PARTITIONS   has to revoke partitions, still in its old     -> it owns none of them any more: continue
                           epoch                                             with the newest target
    UNRELEASED_PARTITIONS  in the target's epoch; other members still     -> each heartbeat takes what is free
                           own some of its partitions

    has      assigned ∩ target     kept
             assigned - target     revoked first, alone, in the old epoch
    lacks    target - assigned     taken in the target's epoch if no member owns it, else waited for

So a partition moves to another member only after a heartbeat in which its previous owner no longer owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final
from uuid import UUID

from broker_core.group.consumer_group_records import (
    CurrentOfMember,
    MemberMetadata,
    PartitionEpochs,
    Partitions,
)


class MemberState(IntEnum):
    """As stored; see the table above."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


_KNOWN_STATES: Final = frozenset(MemberState)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """`metadata` is its subscription; the other fields are its progress."""

    member_id: str
    metadata: MemberMetadata = field(default_factory=MemberMetadata)
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=dict)
    pending_revocation: PartitionEpochs = field(default_factory=dict)

    @property
    def is_classic(self) -> bool:
        return self.metadata.classic is not None

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    @property
    def regex(self) -> str:
        """ "": none."""
        return self.metadata.topic_regex or ""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def current(self) -> CurrentOfMember:
        """As it is stored."""
        return CurrentOfMember(
            epoch=self.epoch,
            previous_epoch=self.previous_epoch,
            state=self.state,
            assigned=self.assigned,
            pending_revocation=self.pending_revocation,
        )

    def with_current(self, current: CurrentOfMember) -> ConsumerMember:
        """As it was stored; a state of a newer version is UNKNOWN."""
        return replace(
            self,
            epoch=current.epoch,
            previous_epoch=current.previous_epoch,
            state=MemberState(current.state) if current.state in _KNOWN_STATES else MemberState.UNKNOWN,
            assigned=current.assigned,
            pending_revocation=current.pending_revocation,
        )

    def owned_since(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch since which the member has the partition, also while it has to revoke it; None: it does not."""
        for held in (self.assigned, self.pending_revocation):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def owns_only(self, owned: Partitions) -> bool:
        """Whether all of it is assigned to the member."""
        return all(partitions <= self.assigned.get(topic, {}).keys() for topic, partitions in owned.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The goal of a member. `topics`: the existing topics that it is subscribed to.

    `owned` is what it reports; None: it reports nothing, so what it has to revoke counts as not revoked yet.
    `is_taken(topic id, partition)`: a member has the partition or has not released it yet.
    """

    target_epoch: int
    target: Partitions
    topics: frozenset[UUID]
    has_subscription_changed: bool
    owned: Partitions | None
    is_taken: Callable[[UUID, int], bool]

    def step(self, member: ConsumerMember) -> ConsumerMember:
        """The member's next state; itself if it has to wait. Not for a member in state UNKNOWN that owns partitions."""
        match member.state:
            case MemberState.STABLE:
                if member.epoch != self.target_epoch:
                    return self._towards_target(member, member.epoch)
                return self._without_unsubscribed(member) if self.has_subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS:
                if self._owns_some(member.pending_revocation):
                    return self._without_unsubscribed(member) if self.has_subscription_changed else member
                return self._towards_target(member, member.epoch)
            case MemberState.UNRELEASED_PARTITIONS:
                return self._towards_target(member, member.epoch)
            case MemberState.UNKNOWN:
                return self._towards_target(member, self.target_epoch)

    def _towards_target(self, member: ConsumerMember, epoch: int) -> ConsumerMember:
        kept: dict[UUID, Mapping[int, int]] = {}
        revoked: dict[UUID, Mapping[int, int]] = {}
        free: dict[UUID, list[int]] = {}
        has_unreleased = False
        for topic in sorted({*self.target, *member.assigned}):
            target = self.target.get(topic, frozenset()) if topic in self.topics else frozenset[int]()
            held = member.assigned.get(topic, {})
            _put(kept, topic, {partition: since for partition, since in held.items() if partition in target})
            _put(revoked, topic, {partition: since for partition, since in held.items() if partition not in target})
            for partition in sorted(target - held.keys()):
                # What the member itself had to revoke is not taken by another: it may keep it.
                is_own = partition in member.pending_revocation.get(topic, {})
                if self.is_taken(topic, partition) and not is_own:
                    has_unreleased = True
                else:
                    free.setdefault(topic, []).append(partition)
        if revoked and self._owns_some(revoked):
            return _moved(member, MemberState.UNREVOKED_PARTITIONS, epoch, kept, revoked)
        for topic, partitions in free.items():
            kept[topic] = {**kept.get(topic, {}), **dict.fromkeys(partitions, self.target_epoch)}
        state = MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE
        return _moved(member, state, self.target_epoch, kept, {})

    def _without_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Partitions of topics that it no longer subscribes to are revoked at once, before there is a new target."""
        dropped = {topic: held for topic, held in member.assigned.items() if topic not in self.topics}
        if not dropped:
            return member
        kept = {topic: held for topic, held in member.assigned.items() if topic in self.topics}
        pending = dict(member.pending_revocation)
        for topic, held in dropped.items():
            pending[topic] = {**pending.get(topic, {}), **held}
        if self._owns_some(pending):
            return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, kept, pending)
        return replace(member, previous_epoch=member.epoch, assigned=kept)

    def _owns_some(self, partitions: PartitionEpochs) -> bool:
        if self.owned is None:
            return True
        return any(held & partitions.get(topic, {}).keys() for topic, held in self.owned.items())


def _put(into: dict[UUID, Mapping[int, int]], topic: UUID, partitions: dict[int, int]) -> None:
    if partitions:
        into[topic] = partitions


def _moved(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: PartitionEpochs, pending: PartitionEpochs
) -> ConsumerMember:
    return replace(
        member,
        state=state,
        epoch=epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        pending_revocation=pending,
    )
