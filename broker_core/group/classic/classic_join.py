"""A member joins a classic group: JoinGroup.

new, dynamic    is told its id and comes again with it (KIP-394), or from an old client is a member at once
new, static     is a member at once; its instance id is known already: it takes the place of the member that had it,
                without a rebalance if the group is Stable and would choose the same protocol (KIP-345)
known           rejoins: parked while the group rebalances, which it makes the group do if it leads or has changed
"""

from __future__ import annotations

from collections.abc import Callable

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_group import ClassicGroup
from broker_core.group.classic.classic_member import ClassicMember
from broker_core.group.classic.classic_messages import UNKNOWN_MEMBER_ID, JoinReply, JoinRequest, SyncReply
from broker_core.group.classic.classic_rebalance import (
    maybe_complete_join,
    prepare_rebalance,
    prepare_rebalance_or_complete_join,
)
from broker_core.group.classic.classic_states import ClassicState
from broker_core.group.classic.classic_step import ClassicStep
from broker_core.group.timer_keys import SESSION


def join(step: ClassicStep, ticket: int, request: JoinRequest, new_id: Callable[[], str]) -> None:
    """`new_id` returns the unique part of a new member's id, for example a random UUID."""
    group = step.group
    if not _has_room(step, request.member_id):
        step.remove(request.member_id)
        step.answer(ticket, JoinReply(error_code=ErrorCode.group_max_size_reached))
        maybe_complete_join(step)
    elif not group.supports(request.protocol_type, request.protocols):
        reply = JoinReply(member_id=request.member_id, error_code=ErrorCode.inconsistent_group_protocol)
        step.answer(ticket, reply)
    elif request.member_id == UNKNOWN_MEMBER_ID:
        prefix = request.client_id if request.group_instance_id is None else request.group_instance_id
        _admit_new(step, ticket, request, f"{prefix}-{new_id()}")
    else:
        _rejoin(step, ticket, request)


def _has_room(step: ClassicStep, member_id: str) -> bool:
    """During a rebalance only the members that have joined count: if the bound was lowered, the last ones are
    refused."""
    group, max_size = step.group, step.settings.max_size
    known = group.members.get(member_id)
    if group.is_empty:
        return True
    if group.state is ClassicState.PREPARING_REBALANCE:
        return (known is not None and known.is_awaiting_join) or group.awaiting_join_count < max_size
    return known is not None or len(group.members) < max_size


def _admit_new(step: ClassicStep, ticket: int, request: JoinRequest, member_id: str) -> None:
    group = step.group
    predecessor_id = group.static_member_id(request.group_instance_id)
    if predecessor_id is not None:
        _take_place(step, ticket, request, predecessor_id, member_id)
    elif request.group_instance_id is None and request.requires_known_member_id:
        group.pending_joins.add(member_id)
        step.expect_session(member_id, request.session_timeout_ms)
        step.answer(ticket, JoinReply(member_id=member_id, error_code=ErrorCode.member_id_required))
    else:
        _add(step, ticket, request, member_id)


def _add(step: ClassicStep, ticket: int, request: JoinRequest, member_id: str) -> None:
    """Its join is parked, so it sends no heartbeats and a dead client would not be noticed: it has a timeout of its
    own."""
    group = step.group
    if group.state is ClassicState.PREPARING_REBALANCE and group.previous_state is ClassicState.EMPTY:
        group.has_grown = True
    group.add(ClassicMember.joining(member_id, request, ticket), request.protocol_type)
    step.expect_session(member_id, step.settings.new_member_join_timeout_ms)
    prepare_rebalance_or_complete_join(step)


def _rejoin(step: ClassicStep, ticket: int, request: JoinRequest) -> None:
    group, member_id = step.group, request.member_id
    if member_id in group.pending_joins:
        if request.group_instance_id is None:
            _add(step, ticket, request, member_id)
        else:  # a static member is never asked to rejoin: Kafka's own check fails on it
            step.answer(ticket, JoinReply(error_code=ErrorCode.unknown_server_error))
        return
    refusal = group.refusal_of(member_id, request.group_instance_id)
    if refusal is not ErrorCode.none:
        step.answer(ticket, JoinReply(member_id=member_id, error_code=refusal))
        return
    member = group.members[member_id]
    is_unchanged = member.protocols == request.protocols
    leads = group.leader_id == member_id
    if is_unchanged and group.state is ClassicState.COMPLETING_REBALANCE:
        # It may not have got the answer to its first join.
        step.answer(ticket, _join_reply(group, member_id, with_members=leads))
    elif is_unchanged and group.state is ClassicState.STABLE and not leads:
        step.answer(ticket, _join_reply(group, member_id, with_members=False))
    else:
        _update(step, ticket, request, member)
        prepare_rebalance_or_complete_join(step)


def _update(step: ClassicStep, ticket: int, request: JoinRequest, member: ClassicMember) -> None:
    step.group.update(member, request.protocols)
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.session_timeout_ms = request.session_timeout_ms
    step.park_join(member, ticket)


def _take_place(step: ClassicStep, ticket: int, request: JoinRequest, old_id: str, new_id: str) -> None:
    """A static member restarted. Requests parked under the old id are fenced."""
    group = step.group
    previous_leader, old_member = group.leader_id or "", group.members[old_id]
    fenced = ErrorCode.fenced_instance_id
    step.answer_join(old_member, JoinReply(member_id=old_id, error_code=fenced))
    step.answer_sync(old_member, SyncReply(error_code=fenced))
    step.cancel(SESSION, old_id)
    member = group.replace_static(old_id, new_id)
    _update(step, ticket, request, member)
    step.expect_heartbeat(member)
    if group.state is ClassicState.COMPLETING_REBALANCE:
        # The leader may have assigned partitions to the old id already.
        prepare_rebalance(step)
    elif group.state is not ClassicState.STABLE:
        maybe_complete_join(step)
    elif group.select_protocol() == group.protocol_name and step.maybe_store_members():
        leads = group.leader_id == new_id
        if request.supports_skipping_assignment:
            reply = _join_reply(group, new_id, with_members=leads, skip_assignment=leads)
        else:
            # With the old leader's id in the answer it does not act as the leader.
            reply = _join_reply(group, new_id, with_members=False, leader=previous_leader)
        step.answer_join(member, reply)
    else:
        prepare_rebalance(step)


def _join_reply(
    group: ClassicGroup,
    member_id: str,
    *,
    with_members: bool,
    leader: str | None = None,
    skip_assignment: bool = False,
) -> JoinReply:
    return JoinReply(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=(group.leader_id or "") if leader is None else leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=group.joined_members() if with_members else (),
    )
