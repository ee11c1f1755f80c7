"""Members of the classic protocol in a group of the new one, while the group is migrated (KIP-848).

Such members have no leader and do not wait for each other: a join moves the member one step towards its target, the
sync that follows returns its assignment, and a heartbeat asks it to join again when there is more to do.

    heartbeat -> REBALANCE_IN_PROGRESS    the target moved, or it is to give something up, or what it waits for is free
    join      -> the member's epoch as the generation; what it owns is in its subscription
    sync      -> what it is assigned
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_messages import (
    UNKNOWN_MEMBER_ID,
    HeartbeatReply,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    LeavingMember,
    LeftMember,
    SyncReply,
    SyncRequest,
)
from broker_core.group.consumer.consumer_departure import remove_members, replace_static
from broker_core.group.consumer.consumer_effects import GroupRequestError
from broker_core.group.consumer.consumer_group import ConsumerGroup
from broker_core.group.consumer.consumer_heartbeat import (
    check_instance,
    check_room,
    decide_target,
    known_member,
    reconcile,
    store_member,
)
from broker_core.group.consumer.consumer_member import ConsumerMember, MemberState
from broker_core.group.consumer.consumer_migration import by_id, by_name, downgrade, is_downgrade_due, maybe_downgrade
from broker_core.group.consumer.consumer_protocol import Subscription, decode_subscription, encode_assignment
from broker_core.group.consumer.consumer_regexes import regex_change_of
from broker_core.group.consumer.consumer_step import JOIN, SYNC, ConsumerStep
from broker_core.group.consumer_group_records import ClassicMemberMetadata, ClassicProtocol, MemberMetadata
from broker_core.group.subscribed_topics import CONSUMER_PROTOCOL_TYPE
from broker_core.model.exceptions import CorruptBatchError


def join(step: ConsumerStep, ticket: int, request: JoinRequest, new_id: Callable[[], str]) -> None:
    """Raises GroupRequestError."""
    settings, group = step.settings, step.group
    if not settings.is_upgrade_enabled and not settings.is_downgrade_enabled:
        raise GroupRequestError(ErrorCode.inconsistent_group_protocol, "the migration of groups is disabled")
    is_unknown = request.member_id == UNKNOWN_MEMBER_ID
    member_id = new_id() if is_unknown else request.member_id
    check_room(group, member_id, settings.max_size)
    if not _is_supported(group, request):
        raise GroupRequestError(
            ErrorCode.inconsistent_group_protocol, f"Member {member_id}'s protocols are not supported."
        )
    if is_unknown and request.group_instance_id is None and request.requires_known_member_id:
        step.answer(ticket, JoinReply(member_id=member_id, error_code=ErrorCode.member_id_required))
        return
    subscription = _subscription_of(request)
    twin = group.static_member(request.group_instance_id)
    member = _find_member(step, request, member_id)
    updated = replace(member, metadata=_wanted(member, request, subscription))
    change = regex_change_of(group, member, updated)
    has_new_names = store_member(step, member, updated)
    step.records += change.tombstones(group.group_id)
    members = group.members_after(updated)
    if twin is not None and is_downgrade_due(step, list(members.values())):
        step.records.clear()
        targets = {name: group.target_of(each) for name, each in members.items()}
        downgrade(step, list(members.values()), targets)
        updated = replace(updated, epoch=group.epoch)
    else:
        updated = _led_on(step, updated, members, subscription, has_changed=has_new_names or change.has_changed)
        step.cancel_timers(member_id, (JOIN,))
        step.expect_heartbeat(updated)
        step.set_timer(SYNC, member_id, step.now_ms + request.rebalance_timeout_ms)
    if twin is not None and twin.member_id != member_id:
        step.cancel_timers(twin.member_id)
    reply = JoinReply(
        member_id=member_id,
        generation_id=updated.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
    )
    step.answer(ticket, reply)


def sync(step: ConsumerStep, ticket: int, request: SyncRequest) -> None:
    """Raises GroupRequestError."""
    member = _classic_member(step.group, request.member_id, request.group_instance_id, request.generation_id)
    assert member.metadata.classic is not None, f"member {member.member_id!r} uses the consumer protocol"
    protocol = member.metadata.classic.protocols[0]
    is_type_wrong = request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE)
    if is_type_wrong or request.protocol_name not in (None, protocol.name):
        raise GroupRequestError(
            ErrorCode.inconsistent_group_protocol, "not the protocol that the join was answered with"
        )
    if step.group.target.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(step, member)
        step.answer(ticket, SyncReply(error_code=ErrorCode.rebalance_in_progress))
        return
    step.cancel_timers(member.member_id, (SYNC,))
    step.expect_heartbeat(member)
    held = {topic: frozenset(partitions) for topic, partitions in member.assigned.items()}
    assignment = encode_assignment(by_name(held, step.world.topics), protocol.metadata)
    step.answer(
        ticket,
        SyncReply(protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment),
    )


def heartbeat_of_classic(step: ConsumerStep, ticket: int, request: HeartbeatRequest) -> None:
    """Raises GroupRequestError."""
    member = _classic_member(step.group, request.member_id, request.group_instance_id, request.generation_id)
    step.expect_heartbeat(member)
    error_code = ErrorCode.none
    if _has_more_to_do(step.group, member):
        error_code = ErrorCode.rebalance_in_progress
        _expect_join(step, member)
    step.answer(ticket, HeartbeatReply(error_code=error_code))


def leave(step: ConsumerStep, ticket: int, request: LeaveRequest) -> None:
    """Judges each member by itself; an administrator names a static one by its instance id alone."""
    leaving: dict[str, ConsumerMember] = {}
    left = []
    for each in request.members:
        error_code = ErrorCode.none
        try:
            member = _leaving_member(step.group, each)
            leaving[member.member_id] = member
        except GroupRequestError as refusal:
            error_code = refusal.error_code
        left.append(
            LeftMember(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=error_code)
        )
    gone = list(leaving.values())
    if not maybe_downgrade(step, gone):
        remove_members(step, gone)
    step.answer(ticket, LeaveReply(members=tuple(left)))


def _led_on(
    step: ConsumerStep,
    updated: ConsumerMember,
    members: dict[str, ConsumerMember],
    subscription: Subscription,
    *,
    has_changed: bool,
) -> ConsumerMember:
    target_epoch, target = decide_target(step, updated, members, is_bump_needed=has_changed)
    return reconcile(
        step,
        updated,
        target_epoch=target_epoch,
        target=target,
        owned=by_id(subscription.owned, step.world.topics),
        has_subscription_changed=has_changed,
    )


def _is_supported(group: ConsumerGroup, request: JoinRequest) -> bool:
    """Whether all classic members support one of its protocols."""
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    known = [
        {protocol.name for protocol in member.metadata.classic.protocols}
        for member in group.members.values()
        if member.metadata.classic is not None
    ]
    return any(all(protocol.name in names for names in known) for protocol in request.protocols)


def _subscription_of(request: JoinRequest) -> Subscription:
    try:
        return decode_subscription(request.protocols[0].metadata)
    except CorruptBatchError as error:
        raise GroupRequestError(
            ErrorCode.unknown_server_error, f"Malformed embedded consumer protocol: {error}"
        ) from error


def _find_member(step: ConsumerStep, request: JoinRequest, member_id: str) -> ConsumerMember:
    group = step.group
    if request.group_instance_id is None:
        return group.members.get(member_id, ConsumerMember(member_id=member_id))
    holder = group.static_member(request.group_instance_id)
    if request.member_id != UNKNOWN_MEMBER_ID:
        return check_instance(holder, member_id, request.group_instance_id)
    return ConsumerMember(member_id=member_id) if holder is None else replace_static(step, holder, member_id)


def _wanted(member: ConsumerMember, request: JoinRequest, subscription: Subscription) -> MemberMetadata:
    known = member.metadata
    return MemberMetadata(
        instance_id=known.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=known.rack_id if subscription.rack_id is None else subscription.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=subscription.topics,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        server_assignor=known.server_assignor,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            protocols=tuple(ClassicProtocol(name=each.name, metadata=each.metadata) for each in request.protocols),
        ),
    )


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> ConsumerMember:
    if instance_id is None:
        member = known_member(group, member_id)
    else:
        member = check_instance(group.static_member(instance_id), member_id, instance_id)
    if not member.is_classic:
        raise GroupRequestError(ErrorCode.unknown_member_id, f"Member {member_id} does not use the classic protocol.")
    if member.epoch != generation_id:
        message = f"The request generation id {generation_id} is not equal to the member epoch {member.epoch}."
        raise GroupRequestError(ErrorCode.illegal_generation, message)
    return member


def _leaving_member(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    if leaving.group_instance_id is None:
        return known_member(group, leaving.member_id)
    holder = group.static_member(leaving.group_instance_id)
    named = leaving.member_id
    if named == UNKNOWN_MEMBER_ID and holder is not None:
        named = holder.member_id
    return check_instance(holder, named, leaving.group_instance_id)


def _has_more_to_do(group: ConsumerGroup, member: ConsumerMember) -> bool:
    is_target_old = group.epoch > group.target.epoch or not group.knows_topics
    if is_target_old and all(each.is_classic for each in group.members.values()):
        # Only a join, or a heartbeat of the new protocol, computes a target. Where downgrades are off there may be no
        # member left to send one (Kafka 4.3 then waits for the next join).
        return True
    if member.epoch < group.target.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not any(
        group.is_taken(topic, partition) and partition not in member.assigned.get(topic, {})
        for topic, partitions in group.target_of(member).items()
        for partition in partitions
    )


def _expect_join(step: ConsumerStep, member: ConsumerMember) -> None:
    if not step.is_timer_set(JOIN, member.member_id):
        step.set_timer(JOIN, member.member_id, step.now_ms + member.metadata.rebalance_timeout_ms)
