"""Members that leave a KIP-848 group or are removed from it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from broker_core.group.consumer.consumer_effects import STATIC_LEAVE_EPOCH
from broker_core.group.consumer.consumer_member import ConsumerMember
from broker_core.group.consumer.consumer_step import ConsumerStep
from broker_core.group.consumer_group_records import ConsumerRecordType, PartitionEpochs, TargetOfMember


def remove_members(step: ConsumerStep, leaving: Collection[ConsumerMember]) -> None:
    """Removes the members for good: their partitions become free and the group epoch grows. Without members: no
    change."""
    if not leaving:
        return
    group = step.group
    for member in leaving:
        step.restore_member(member.member_id)
    gone = {member.member_id for member in leaving}
    staying = [member for name, member in group.members.items() if name not in gone]
    for regex in sorted(group.subscribed_regexes(leaving) - group.subscribed_regexes(staying)):
        step.store(ConsumerRecordType.REGEX, regex)
    step.store_epoch(group.epoch + 1, step.world.topics.hash_of(group.topic_names(staying)))
    for member in leaving:
        step.cancel_timers(member.member_id)


def leave_for_a_while(step: ConsumerStep, member: ConsumerMember) -> None:
    """A static member leaves for a while: its partitions wait for its instance id until its session times out."""
    left = replace(member, epoch=STATIC_LEAVE_EPOCH, assigned=_since_ever(member.assigned), pending_revocation={})
    step.store(ConsumerRecordType.CURRENT_OF_MEMBER, member.member_id, left.current())


def replace_static(step: ConsumerStep, old: ConsumerMember, member_id: str) -> ConsumerMember:
    """The static member under its new id, as a joining one, with the assignment and target of the old one."""
    new = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
    step.restore_member(old.member_id)
    step.store(ConsumerRecordType.MEMBER, member_id, new.metadata)
    step.store(
        ConsumerRecordType.TARGET_OF_MEMBER,
        member_id,
        TargetOfMember(partitions=step.group.targets.get(old.member_id, {})),
    )
    step.store(ConsumerRecordType.CURRENT_OF_MEMBER, member_id, new.current())
    return new


def end_group(step: ConsumerStep) -> None:
    """Writes tombstones for everything that is stored of the member."""
    group = step.group
    for kind in (ConsumerRecordType.CURRENT_OF_MEMBER, ConsumerRecordType.TARGET_OF_MEMBER):
        for member_id in group.members:
            step.store(kind, member_id)
    step.store(ConsumerRecordType.TARGET)
    for member_id in group.members:
        step.store(ConsumerRecordType.MEMBER, member_id)
    for regex in group.regexes:
        step.store(ConsumerRecordType.REGEX, regex)
    step.store(ConsumerRecordType.TOPICS)
    step.store(ConsumerRecordType.GROUP)
    for member_id in group.members:
        step.cancel_timers(member_id)


def _since_ever(held: PartitionEpochs) -> PartitionEpochs:
    return {topic: dict.fromkeys(partitions, 0) for topic, partitions in held.items()}
