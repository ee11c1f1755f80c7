"""A group changes its protocol while it has members (KIP-848): online, and every member keeps its partitions.

upgrade     the first member of the new protocol joins a classic group of consumers: each classic member is stored as
            a member of the new kind with its assignment and asked to rejoin; from then on its joins, syncs and
            heartbeats drive it (`consumer_classic_members`)
downgrade   the last member of the new protocol leaves and classic ones stay: the group is stored as a classic one with
            the targets as assignments, and its members are asked to rejoin
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_group import ClassicGroup
from broker_core.group.classic.classic_group_records import encode_stored_group
from broker_core.group.classic.classic_member import ClassicMember
from broker_core.group.classic.classic_messages import JoinProtocol
from broker_core.group.classic.classic_states import ClassicState
from broker_core.group.consumer.consumer_departure import end_group
from broker_core.group.consumer.consumer_effects import GroupRequestError
from broker_core.group.consumer.consumer_group import ConsumerGroup
from broker_core.group.consumer.consumer_member import ConsumerMember
from broker_core.group.consumer.consumer_protocol import decode_assignment, decode_subscription, encode_assignment
from broker_core.group.consumer.consumer_step import ConsumerStep, ConsumerWorld
from broker_core.group.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupRecord,
    ConsumerRecordType,
    MemberMetadata,
    Partitions,
    TargetEpoch,
    TargetOfMember,
)
from broker_core.group.group_records import GroupMetadataRecord
from broker_core.group.subscribed_topics import CONSUMER_PROTOCOL_TYPE
from broker_core.group.timer_keys import ADOPTED, ClassicTimer
from broker_core.group.topic_view import TopicView
from broker_core.model.exceptions import CorruptBatchError


def upgraded(classic: ClassicGroup, world: ConsumerWorld, now_ms: int) -> ConsumerStep:
    """The records that turn it into a consumer group, already replayed into a group. Raises GroupRequestError."""
    _check_upgrade(classic, world)
    step = ConsumerStep(ConsumerGroup(classic.group_id), world, now_ms)
    protocol = classic.protocol_name or classic.select_protocol()
    try:
        members = [_upgraded_member(classic, each, protocol, world.topics) for each in classic.members.values()]
    except CorruptBatchError as error:
        raise _cannot(classic, "because the embedded consumer protocol is malformed.") from error
    epoch = classic.generation_id
    for member in members:
        step.store(ConsumerRecordType.MEMBER, member.member_id, member.metadata)
    names = frozenset().union(*(member.metadata.topic_names for member in members))
    step.store_epoch(epoch, world.topics.hash_of(names))
    for member in members:
        held = {topic: frozenset(partitions) for topic, partitions in member.assigned.items()}
        step.store(ConsumerRecordType.TARGET_OF_MEMBER, member.member_id, TargetOfMember(partitions=held))
    step.store(ConsumerRecordType.TARGET, value=TargetEpoch(epoch=epoch))
    for member in members:
        step.store(ConsumerRecordType.CURRENT_OF_MEMBER, member.member_id, member.current())
    for record in step.records:
        assert isinstance(record, ConsumerGroupRecord), f"{record} is not a record of the consumer protocol"
        step.group.replay(record)
    return step


def maybe_downgrade(step: ConsumerStep, leaving: Collection[ConsumerMember]) -> bool:
    """Whether the group becomes classic now: without `leaving`, all members use the classic protocol."""
    gone = {member.member_id for member in leaving}
    staying = [member for name, member in step.group.members.items() if name not in gone]
    if not gone or not is_downgrade_due(step, staying):
        return False
    targets = {member.member_id: step.group.targets.get(member.member_id, {}) for member in staying}
    downgrade(step, staying, targets)
    return True


def is_downgrade_due(step: ConsumerStep, staying: Collection[ConsumerMember]) -> bool:
    """Whether at least one member stays, all that stay use the classic protocol, and downgrades are allowed."""
    settings = step.settings
    if not staying or not settings.is_downgrade_enabled or len(staying) > settings.max_classic_size:
        return False
    return all(member.is_classic for member in staying)


def downgrade(step: ConsumerStep, staying: Collection[ConsumerMember], targets: Mapping[str, Partitions]) -> None:
    """`targets` by the ids of the members that stay."""
    end_group(step)
    classic = ClassicGroup(step.group.group_id)
    classic.generation_id = step.group.epoch
    classic.state, classic.state_timestamp_ms = ClassicState.STABLE, step.now_ms
    for member in staying:
        classic.add(_classic_member(member), CONSUMER_PROTOCOL_TYPE)
    classic.protocol_name = classic.select_protocol()
    assignments = {
        member_id: encode_assignment(
            by_name(targets[member_id], step.world.topics), each.metadata_of(classic.protocol_name)
        )
        for member_id, each in classic.members.items()
    }
    value = encode_stored_group(classic.as_stored(assignments))
    step.records.append(GroupMetadataRecord(group_id=classic.group_id, value=value))
    step.set_foreign_timer(ClassicTimer(kind=ADOPTED, group_id=classic.group_id).key)


def _check_upgrade(classic: ClassicGroup, world: ConsumerWorld) -> None:
    if not world.settings.is_upgrade_enabled:
        raise _cannot(classic, "because online upgrade is disabled.")
    if not classic.is_consumer_group:
        raise _cannot(classic, "because the group does not use the consumer embedded protocol.")
    if len(classic.members) > world.settings.max_size:
        raise _cannot(classic, "because the group size exceeds the consumer group maximum size.")


def _upgraded_member(classic: ClassicGroup, member: ClassicMember, protocol: str, topics: TopicView) -> ConsumerMember:
    subscription = decode_subscription(member.metadata_of(protocol))
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        raise _cannot(
            classic,
            "because an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
            "default assignor before re-attempting the upgrade.",
        )
    epoch = classic.generation_id
    known = [(topics.id_of(topic), numbers) for topic, numbers in assignment.partitions.items() if numbers]
    return ConsumerMember(
        member_id=member.member_id,
        metadata=MemberMetadata(
            instance_id=member.group_instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            topic_names=subscription.topics,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMemberMetadata(
                session_timeout_ms=member.session_timeout_ms,
                protocols=tuple(ClassicProtocol(name=each.name, metadata=each.metadata) for each in member.protocols),
            ),
        ),
        epoch=epoch,
        previous_epoch=epoch,
        assigned={
            topic_id: dict.fromkeys(sorted(numbers), epoch) for topic_id, numbers in known if topic_id is not None
        },
    )


def _classic_member(member: ConsumerMember) -> ClassicMember:
    classic = member.metadata.classic
    assert classic is not None, f"member {member.member_id!r} does not speak the classic protocol"
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.metadata.client_id,
        client_host=member.metadata.client_host,
        rebalance_timeout_ms=member.metadata.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols=tuple(JoinProtocol(name=each.name, metadata=each.metadata) for each in classic.protocols),
    )


def by_name(partitions: Partitions, topics: TopicView) -> dict[str, frozenset[int]]:
    named = ((topics.name_of(topic_id), numbers) for topic_id, numbers in partitions.items())
    return {name: numbers for name, numbers in named if name is not None}


def by_id(partitions: Mapping[str, frozenset[int]], topics: TopicView) -> Partitions:
    """Topics that do not exist are left out."""
    known = ((topics.id_of(topic), numbers) for topic, numbers in partitions.items())
    return {topic_id: numbers for topic_id, numbers in known if topic_id is not None}


def _cannot(classic: ClassicGroup, why: str) -> GroupRequestError:
    message = f"Cannot upgrade classic group {classic.group_id} to consumer group {why}"
    return GroupRequestError(ErrorCode.group_id_not_found, message)
