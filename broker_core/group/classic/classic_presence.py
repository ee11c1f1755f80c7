"""Liveness of the members of a classic group: Heartbeat, LeaveGroup, the session timeout."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_group import ClassicGroup
from broker_core.group.classic.classic_messages import (
    UNKNOWN_MEMBER_ID,
    HeartbeatReply,
    HeartbeatRequest,
    LeaveReply,
    LeaveRequest,
    LeavingMember,
    LeftMember,
)
from broker_core.group.classic.classic_rebalance import (
    complete_join,
    prepare_rebalance_or_complete_join,
)
from broker_core.group.classic.classic_states import ClassicState
from broker_core.group.classic.classic_step import ClassicStep


def heartbeat(step: ClassicStep, ticket: int, request: HeartbeatRequest) -> None:
    """During a rebalance the answer asks the member to join; its session is renewed all the same."""
    group = step.group
    error_code = group.refusal_of(request.member_id, request.group_instance_id)
    if error_code is ErrorCode.none and request.generation_id != group.generation_id:
        error_code = ErrorCode.illegal_generation
    if error_code is ErrorCode.none:
        step.expect_heartbeat(group.members[request.member_id])
        if group.state is ClassicState.PREPARING_REBALANCE:
            error_code = ErrorCode.rebalance_in_progress
    step.answer(ticket, HeartbeatReply(error_code=error_code))


def leave(step: ClassicStep, ticket: int, request: LeaveRequest) -> None:
    """Judges each member by itself; starts one rebalance for all of them."""
    group, left = step.group, []
    for member in request.members:
        member_id, error_code = _leaving(group, member)
        if error_code is ErrorCode.none:
            step.remove(member_id)
        left.append(
            LeftMember(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error_code)
        )
    step.answer(ticket, LeaveReply(members=tuple(left)))
    if any(each.error_code is ErrorCode.none for each in left) and not group.is_empty:
        prepare_rebalance_or_complete_join(step)


def on_session_timer(step: ClassicStep, member_id: str) -> None:
    """The session timed out. A member with a parked request stays: the coordinator makes it wait."""
    group = step.group
    is_pending, member = member_id in group.pending_joins, group.members.get(member_id)
    if not is_pending and (member is None or member.is_excused):
        return
    step.remove(member_id)
    if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE) and not is_pending:
        prepare_rebalance_or_complete_join(step)
    elif group.state is ClassicState.PREPARING_REBALANCE and group.has_everybody_joined:
        complete_join(step)


def _leaving(group: ClassicGroup, member: LeavingMember) -> tuple[str, ErrorCode]:
    """The member id that the request names, and the error that keeps it from leaving."""
    if member.member_id == UNKNOWN_MEMBER_ID:
        static_id = group.static_member_id(member.group_instance_id)
        return (UNKNOWN_MEMBER_ID, ErrorCode.unknown_member_id) if static_id is None else (static_id, ErrorCode.none)
    if member.member_id in group.pending_joins:
        return member.member_id, ErrorCode.none
    return member.member_id, group.refusal_of(member.member_id, member.group_instance_id)
