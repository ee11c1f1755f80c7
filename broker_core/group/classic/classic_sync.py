"""A member asks a classic group for its assignment, which the leader brings: SyncGroup."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_group import ClassicGroup
from broker_core.group.classic.classic_messages import SyncReply, SyncRequest
from broker_core.group.classic.classic_rebalance import prepare_rebalance, send_back_syncs
from broker_core.group.classic.classic_states import ClassicState, assert_may_follow
from broker_core.group.classic.classic_step import ClassicStep
from broker_core.group.timer_keys import SYNC


def sync(step: ClassicStep, ticket: int, request: SyncRequest) -> None:
    group, member_id = step.group, request.member_id
    refusal = _refusal_of(group, request)
    if refusal is not ErrorCode.none:
        step.answer(ticket, SyncReply(error_code=refusal))
        return
    member = group.members[member_id]
    group.pending_syncs.discard(member_id)
    if not group.pending_syncs:
        step.cancel(SYNC)
    if group.state is ClassicState.STABLE:
        step.answer(ticket, _assigned(group, member.assignment))
        return
    step.park_sync(member, ticket)
    if group.leader_id == member_id:
        _store_assignments(step, request)


def _refusal_of(group: ClassicGroup, request: SyncRequest) -> ErrorCode:
    refusal = group.refusal_of(request.member_id, request.group_instance_id)
    if refusal is not ErrorCode.none:
        return refusal
    if request.generation_id != group.generation_id:
        return ErrorCode.illegal_generation
    if request.protocol_type not in (None, group.protocol_type) and group.protocol_type is not None:
        return ErrorCode.inconsistent_group_protocol
    if request.protocol_name not in (None, group.protocol_name) and group.protocol_name is not None:
        return ErrorCode.inconsistent_group_protocol
    if group.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.rebalance_in_progress
    return ErrorCode.none


def _store_assignments(step: ClassicStep, request: SyncRequest) -> None:
    """The record's replay makes the group Stable. Members that the leader left out get an empty assignment."""
    group = step.group
    assert_may_follow(ClassicState.STABLE, group.state, group.group_id)
    if not step.maybe_store_members(request.assignments):
        # As in Kafka when the log refuses the record as too large: the members try it again.
        send_back_syncs(step, ErrorCode.unknown_server_error)
        prepare_rebalance(step)
        return
    for member in group.members.values():
        if step.answer_sync(member, _assigned(group, request.assignments.get(member.member_id, b""))):
            step.expect_heartbeat(member)


def _assigned(group: ClassicGroup, assignment: bytes) -> SyncReply:
    return SyncReply(protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment)
