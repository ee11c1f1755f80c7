"""The heartbeat of a KIP-848 member: it joins, changes its subscription and reports its partitions.

1  find the member: a new one, a known one in its epoch, a static one that returns under a new id; or refuse
2  store its subscription if it changed; that, and changed topics, increase the group epoch
3  compute a new target assignment if the target epoch lags behind the group epoch
4  move the member one step towards its target
5  answer its epoch, and its assignment if that changed or if the member asks for everything
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kio.schema.errors import ErrorCode

from broker_core.group.consumer.consumer_departure import replace_static
from broker_core.group.consumer.consumer_effects import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    GroupRequestError,
)
from broker_core.group.consumer.consumer_group import ConsumerGroup
from broker_core.group.consumer.consumer_member import ConsumerMember, MemberState, Reconciliation
from broker_core.group.consumer.consumer_regexes import maybe_ask_for_regexes, regex_change_of
from broker_core.group.consumer.consumer_settings import ConsumerGroupSettings
from broker_core.group.consumer.consumer_step import REBALANCE, ConsumerStep, fit_in_records
from broker_core.group.consumer_group_records import ConsumerRecordType, MemberMetadata, Partitions

_NO_TIMEOUT = -1


def check_heartbeat(request: ConsumerHeartbeatRequest, settings: ConsumerGroupSettings) -> None:
    """Raises GroupRequestError for errors that need no group to be found."""
    if (
        request.has_own_id or request.member_epoch > 0 or request.member_epoch == LEAVE_EPOCH
    ) and not request.member_id:
        raise GroupRequestError(ErrorCode.invalid_request, "MemberId can't be empty.")
    for name, text in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if text is not None and not text.strip():
            raise GroupRequestError(ErrorCode.invalid_request, f"{name} can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        _check_joining(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise GroupRequestError(ErrorCode.invalid_request, "InstanceId can't be null.")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise GroupRequestError(ErrorCode.invalid_request, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in settings.assignors:
        raise GroupRequestError(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
            f"{', '.join(settings.assignors)}.",
        )
    texts = (request.group_id, request.member_id, request.instance_id, request.rack_id, request.topic_regex)
    if not fit_in_records((*texts, request.client_id, request.client_host, *(request.topic_names or ()))):
        raise GroupRequestError(ErrorCode.invalid_request, "A string is longer than a record of the group can hold.")


def _check_joining(request: ConsumerHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _NO_TIMEOUT:
        raise GroupRequestError(ErrorCode.invalid_request, "RebalanceTimeoutMs must be provided in first request.")
    if request.owned is None or request.owned:
        raise GroupRequestError(ErrorCode.invalid_request, "TopicPartitions must be empty when (re-)joining.")
    if request.topic_names is None and request.topic_regex is None:
        raise GroupRequestError(
            ErrorCode.invalid_request,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )


def heartbeat(step: ConsumerStep, ticket: int, request: ConsumerHeartbeatRequest, new_id: Callable[[], str]) -> None:
    """Raises GroupRequestError. `new_id` returns a new member id."""
    check_room(step.group, request.member_id, step.settings.max_size)
    twin = step.group.static_member(request.instance_id)
    member = _find_member(step, request, request.member_id or new_id())
    updated = replace(member, metadata=_wanted(member, request))
    regex_change = regex_change_of(step.group, member, updated)
    has_new_names = store_member(step, member, updated)
    step.records += regex_change.tombstones(step.group.group_id)
    maybe_ask_for_regexes(step, updated, regex_change, request.sees_topic)
    members = step.group.members_after(updated)
    target_epoch, target = decide_target(
        step, updated, members, is_bump_needed=has_new_names or regex_change.needs_rebalance
    )
    updated = reconcile(
        step,
        updated,
        target_epoch=target_epoch,
        target=target,
        owned=request.owned,
        has_subscription_changed=has_new_names or regex_change.has_changed,
    )
    if twin is not None and twin.member_id != updated.member_id:
        step.cancel_timers(twin.member_id)
    step.expect_heartbeat(updated)
    step.answer(ticket, _reply(step, request, member, updated))


def check_room(group: ConsumerGroup, member_id: str, max_size: int) -> None:
    """Raises GroupRequestError."""
    if len(group.members) >= max_size and member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {max_size} members."
        raise GroupRequestError(ErrorCode.group_max_size_reached, message)


def store_member(step: ConsumerStep, member: ConsumerMember, updated: ConsumerMember) -> bool:
    """Whether its subscription by name changed."""
    if updated != member or member.member_id not in step.group.members:
        step.store(ConsumerRecordType.MEMBER, updated.member_id, updated.metadata)
    return updated.metadata.topic_names != member.metadata.topic_names


def decide_target(
    step: ConsumerStep, updated: ConsumerMember, members: dict[str, ConsumerMember], *, is_bump_needed: bool
) -> tuple[int, Partitions]:
    """The epoch of the target assignment and what of it is meant for the member. `members`: with it as it is now."""
    group, settings = step.group, step.settings
    epoch = group.epoch
    if is_bump_needed or not group.knows_topics:
        metadata_hash = step.world.topics.hash_of(group.topic_names(members.values()))
        if is_bump_needed or metadata_hash != group.metadata_hash:
            epoch += 1
            step.store_epoch(epoch, metadata_hash)
        group.knows_topics = True
        if group.has_stored_topics:
            step.store(ConsumerRecordType.TOPICS)
    # The first target is computed at once, and so is one that follows a target of unknown time.
    may_decide = (
        not group.target.computed_ms or step.now_ms >= group.target.computed_ms + settings.assignment_interval_ms
    )
    if group.target.epoch >= epoch or not may_decide:
        return group.target.epoch, group.target_of(updated)
    return epoch, step.store_target(epoch, members)[updated.member_id]


def reconcile(
    step: ConsumerStep,
    member: ConsumerMember,
    *,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    has_subscription_changed: bool,
) -> ConsumerMember:
    """The member one step further, stored if it moved. Raises GroupRequestError if it has to rejoin."""
    if member.is_reconciled_to(target_epoch) and not has_subscription_changed:
        return member
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        message = (
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
        )
        raise GroupRequestError(ErrorCode.fenced_member_epoch, message)
    towards = Reconciliation(
        target_epoch=target_epoch,
        target=target,
        topics=step.world.topics.ids_of(step.group.topic_names((member,))),
        has_subscription_changed=has_subscription_changed,
        owned=owned,
        is_taken=step.group.is_taken,
    )
    moved = towards.step(member)
    if moved == member:
        return member
    step.store(ConsumerRecordType.CURRENT_OF_MEMBER, moved.member_id, moved.current())
    if not moved.is_classic:
        if moved.state is MemberState.UNREVOKED_PARTITIONS:
            step.set_timer(REBALANCE, moved.member_id, step.now_ms + moved.metadata.rebalance_timeout_ms)
        else:
            step.cancel_timers(moved.member_id, (REBALANCE,))
    return moved


def check_instance(holder: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """Raises GroupRequestError if no member, or another member, has the instance id."""
    if holder is None:
        raise GroupRequestError(ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown.")
    if holder.member_id != member_id:
        message = f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}."
        raise GroupRequestError(ErrorCode.fenced_instance_id, message)
    return holder


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    """Raises GroupRequestError."""
    member = group.members.get(member_id)
    if member is None:
        raise GroupRequestError(
            ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {group.group_id}."
        )
    return member


def _find_member(step: ConsumerStep, request: ConsumerHeartbeatRequest, member_id: str) -> ConsumerMember:
    group, is_joining = step.group, request.member_epoch == JOIN_EPOCH
    if request.instance_id is None:
        member = group.members.get(member_id, ConsumerMember(member_id=member_id)) if is_joining else None
        member = member or known_member(group, member_id)
        _check_epoch(member, request)
        return member
    holder = group.static_member(request.instance_id)
    if not is_joining:
        member = check_instance(holder, member_id, request.instance_id)
        _check_epoch(member, request)
        return member
    if holder is None:
        return group.members.get(member_id, ConsumerMember(member_id=member_id))
    if not holder.is_classic and holder.epoch != STATIC_LEAVE_EPOCH:
        raise GroupRequestError(
            ErrorCode.unreleased_instance_id,
            f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the "
            f"instance id is owned by {holder.member_id} member.",
        )
    return replace_static(step, holder, member_id)


def _check_epoch(member: ConsumerMember, request: ConsumerHeartbeatRequest) -> None:
    """The previous epoch is accepted too while the member owns nothing beyond its assignment: the answer with the new
    epoch may have been lost."""
    received = request.member_epoch
    if received in (JOIN_EPOCH, member.epoch):
        return
    is_lost_answer = received == member.previous_epoch and request.owned is not None and member.owns_only(request.owned)
    if received < member.epoch and is_lost_answer:
        return
    relation = "greater" if received > member.epoch else "smaller"
    raise GroupRequestError(
        ErrorCode.fenced_member_epoch,
        f"The consumer group member has a {relation} member epoch ({received}) than the one known by the group "
        f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _wanted(member: ConsumerMember, request: ConsumerHeartbeatRequest) -> MemberMetadata:
    known = member.metadata
    is_timeout_given = request.rebalance_timeout_ms != _NO_TIMEOUT
    return MemberMetadata(
        instance_id=known.instance_id if request.instance_id is None else request.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=known.topic_names if request.topic_names is None else request.topic_names,
        topic_regex=known.topic_regex if request.topic_regex is None else request.topic_regex,
        rebalance_timeout_ms=request.rebalance_timeout_ms if is_timeout_given else known.rebalance_timeout_ms,
        server_assignor=known.server_assignor if request.server_assignor is None else request.server_assignor,
    )


def _reply(
    step: ConsumerStep, request: ConsumerHeartbeatRequest, member: ConsumerMember, updated: ConsumerMember
) -> ConsumerHeartbeatReply:
    has_subscription = request.topic_names is not None or request.topic_regex is not None
    is_full = request.rebalance_timeout_ms != _NO_TIMEOUT and has_subscription and request.owned is not None
    has_assignment = request.member_epoch == JOIN_EPOCH or is_full or updated.assigned != member.assigned
    assigned = {topic: frozenset(partitions) for topic, partitions in updated.assigned.items()}
    return ConsumerHeartbeatReply(
        member_id=updated.member_id,
        member_epoch=updated.epoch,
        heartbeat_interval_ms=step.settings.heartbeat_interval_ms,
        assignment=assigned if has_assignment else None,
    )
