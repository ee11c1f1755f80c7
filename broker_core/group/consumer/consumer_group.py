"""One KIP-848 group as stored in `__consumer_offsets`: only replay changes it, except for its soft marks.

group epoch     grows when subscriptions or the subscribed topics change
target epoch    the group epoch of the newest target assignment; lags behind the group epoch
member epoch    the target epoch that the member has reached; lags behind the target epoch

EMPTY         no members
ASSIGNING     the target epoch lags behind the group epoch
RECONCILING   a member is not STABLE in the target epoch
STABLE        otherwise
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Final
from uuid import UUID

from broker_core.group.consumer.consumer_member import ConsumerMember
from broker_core.group.consumer_group_records import (
    ConsumerGroupRecord,
    ConsumerRecordType,
    CurrentOfMember,
    GroupEpoch,
    MemberMetadata,
    PartitionEpochs,
    Partitions,
    ResolvedRegex,
    TargetEpoch,
    TargetOfMember,
)

FIRST_EPOCH: Final = 1
"""The epoch of a group that is not stored yet."""


class ConsumerGroupState(enum.Enum):
    """The value is Kafka's name for it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """`knows_topics`, `knows_regexes`: False marks that topics may have changed since the group last looked at them."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target = TargetEpoch(epoch=0)
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_stored_topics = False
        self.knows_topics = False
        self.knows_regexes = False
        self.sees_topic: Callable[[str], bool] | None = None
        """Set while regular expressions wait to be resolved: which topics the requesting client may see."""
        self._static_members: dict[str, str] = {}
        self._owners: dict[tuple[UUID, int], str] = {}

    # -- what is known --

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target.epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target.epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self._static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def is_taken(self, topic_id: UUID, partition: int) -> bool:
        """Whether a member has the partition or has not released it yet."""
        return (topic_id, partition) in self._owners

    def target_of(self, member: ConsumerMember) -> Partitions:
        """A static member takes over the assignment of the member that it replaces."""
        holder = self.static_member(member.instance_id)
        return self.targets.get(member.member_id if holder is None else holder.member_id, {})

    def members_after(self, member: ConsumerMember) -> dict[str, ConsumerMember]:
        """The members with `member` in place of its older version or of the static member that it replaces."""
        twin = self.static_member(member.instance_id)
        others = {name: each for name, each in self.members.items() if twin is None or name != twin.member_id}
        return {**others, member.member_id: member}

    def topic_names(self, members: Iterable[ConsumerMember]) -> frozenset[str]:
        """The topics that these members subscribe to, by name or by a resolved expression."""
        found: set[str] = set()
        regexes: set[str] = set()
        for member in members:
            found |= member.metadata.topic_names
            regexes.add(member.regex)
        for regex in regexes & self.regexes.keys():
            found |= self.regexes[regex].topics
        return frozenset(found)

    def subscribers_of(self, regex: str) -> int:
        return sum(member.regex == regex for member in self.members.values())

    def subscribed_regexes(self, members: Collection[ConsumerMember]) -> frozenset[str]:
        return frozenset(member.regex for member in members if member.regex)

    def assignor(self, members: Iterable[ConsumerMember], default: str) -> str:
        """The assignor that most members request, of those that request one."""
        asked = Counter(member.metadata.server_assignor for member in members if member.metadata.server_assignor)
        return max(asked.items(), key=lambda pair: (pair[1], pair[0]))[0] if asked else default

    # -- replay --

    def replay(self, record: ConsumerGroupRecord) -> None:
        """Applies a record, except the one that ends the group: `ConsumerGroups` does that."""
        match record.type, record.value:
            case ConsumerRecordType.GROUP, GroupEpoch() as stored:
                self.epoch, self.metadata_hash = stored.epoch, stored.metadata_hash
            case ConsumerRecordType.TOPICS, value:
                self.has_stored_topics = value is not None
            case ConsumerRecordType.MEMBER, MemberMetadata() as metadata:
                known = self.members.get(record.item) or ConsumerMember(member_id=record.item)
                self._put(replace(known, metadata=metadata))
            case ConsumerRecordType.MEMBER, None:
                self._remove(record.item)
            case ConsumerRecordType.TARGET, TargetEpoch() as target:
                self.target = target
            case ConsumerRecordType.TARGET_OF_MEMBER, TargetOfMember() as of_member:
                self.targets[record.item] = of_member.partitions
            case ConsumerRecordType.TARGET_OF_MEMBER, None:
                self.targets.pop(record.item, None)
            case ConsumerRecordType.CURRENT_OF_MEMBER, CurrentOfMember() as current:
                known = self.members.get(record.item) or ConsumerMember(member_id=record.item)
                self._put(known.with_current(current))
            case ConsumerRecordType.CURRENT_OF_MEMBER, None if record.item in self.members:
                self._put(
                    replace(self.members[record.item], epoch=-1, previous_epoch=-1, assigned={}, pending_revocation={})
                )
            case ConsumerRecordType.REGEX, ResolvedRegex() as resolved:
                self.regexes[record.item] = resolved
            case ConsumerRecordType.REGEX, None:
                self.regexes.pop(record.item, None)

    def _put(self, member: ConsumerMember) -> None:
        self._release(member.member_id)
        self.members[member.member_id] = member
        for held in (member.assigned, member.pending_revocation):
            for pair in _pairs(held):
                owner = self._owners.setdefault(pair, member.member_id)
                assert owner == member.member_id, (
                    f"{pair} of {self.group_id} is owned by {owner} and by {member.member_id}"
                )
        if member.instance_id is not None:
            self._static_members[member.instance_id] = member.member_id

    def _remove(self, member_id: str) -> None:
        self._release(member_id)
        member = self.members.pop(member_id, None)
        # A static member that returned under a new id has replaced it already.
        if member is not None and self._static_members.get(member.instance_id or "") == member_id:
            del self._static_members[member.instance_id or ""]

    def _release(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is not None:
            for held in (member.assigned, member.pending_revocation):
                for pair in _pairs(held):
                    del self._owners[pair]


def _pairs(held: PartitionEpochs) -> Iterable[tuple[UUID, int]]:
    return ((topic, partition) for topic, partitions in held.items() for partition in partitions)
