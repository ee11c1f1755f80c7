"""A classic group moves from one generation to the next.

    prepare_rebalance       parked syncs are sent back, members are to join until the rebalance timeout
                            (from Empty: for the initial delay, longer if more members come)
    maybe_complete_join     all members have joined
    complete_join           members that did not join are removed, parked joins are answered: the generation is known
    expire_syncs            members that know the generation but did not ask for their assignment are removed

`classic_sync` completes it.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_group import InitialDelay
from broker_core.group.classic.classic_messages import JoinReply, SyncReply
from broker_core.group.classic.classic_states import VALID_PREDECESSORS, ClassicState
from broker_core.group.classic.classic_step import ClassicStep
from broker_core.group.timer_keys import JOIN, SYNC


def prepare_rebalance_or_complete_join(step: ClassicStep) -> None:
    """After a member joined, changed or left."""
    if step.group.state in VALID_PREDECESSORS[ClassicState.PREPARING_REBALANCE]:
        prepare_rebalance(step)
    else:
        maybe_complete_join(step)


def prepare_rebalance(step: ClassicStep) -> None:
    group = step.group
    if group.state is ClassicState.COMPLETING_REBALANCE:
        send_back_syncs(step, ErrorCode.rebalance_in_progress)
    group.pending_syncs.clear()
    step.cancel(SYNC)
    is_first = group.is_empty
    group.transition_to(ClassicState.PREPARING_REBALANCE, step.now_ms)
    if is_first:
        delay_ms = step.settings.initial_rebalance_delay_ms
        _delay_first_generation(step, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
    elif group.has_everybody_joined:
        complete_join(step)
    else:
        step.expect_joins(group.rebalance_timeout_ms)


def maybe_complete_join(step: ClassicStep) -> None:
    """A first generation waits for its whole delay, even when all known members have joined."""
    group = step.group
    is_waiting = group.state is ClassicState.PREPARING_REBALANCE and group.previous_state is not ClassicState.EMPTY
    if is_waiting and group.has_everybody_joined:
        complete_join(step)


def on_join_timer(step: ClassicStep) -> None:
    """The rebalance timeout, or the initial delay, is over."""
    group, delay = step.group, step.group.initial_delay
    if group.state is not ClassicState.PREPARING_REBALANCE:
        return
    if delay is not None and group.has_grown and delay.remaining_ms:
        group.has_grown = False
        next_delay_ms = min(step.settings.initial_rebalance_delay_ms, delay.remaining_ms)
        _delay_first_generation(step, next_delay_ms, max(delay.remaining_ms - delay.delay_ms, 0))
    else:
        complete_join(step)


def complete_join(step: ClassicStep) -> None:
    """Static members that did not join stay members (KIP-345): only their session timeout removes them."""
    group = step.group
    step.cancel(JOIN)
    group.initial_delay, group.has_grown = None, False
    late = [each.member_id for each in group.members.values() if not each.is_awaiting_join]
    for member_id in late:
        if group.members[member_id].group_instance_id is None:
            step.remove(member_id)
    if not group.members:
        step.store_empty()
    elif not group.maybe_elect_joined_leader():
        step.expect_joins(group.rebalance_timeout_ms)
    else:
        _answer_joins(step)


def send_back_syncs(step: ClassicStep, error_code: ErrorCode) -> None:
    """Renews the sessions of their members."""
    for member in step.group.members.values():
        member.assignment = b""
        if step.answer_sync(member, SyncReply(error_code=error_code)):
            step.expect_heartbeat(member)


def on_sync_timer(step: ClassicStep) -> None:
    group = step.group
    is_on = group.state in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
    if is_on and group.pending_syncs:
        for member_id in sorted(group.pending_syncs):
            step.remove(member_id)
        prepare_rebalance(step)


def _delay_first_generation(step: ClassicStep, delay_ms: int, remaining_ms: int) -> None:
    step.group.initial_delay = InitialDelay(delay_ms=delay_ms, remaining_ms=remaining_ms)
    step.expect_joins(delay_ms)


def _answer_joins(step: ClassicStep) -> None:
    group = step.group
    group.begin_generation(step.now_ms)
    leader = group.leader_id or ""
    for member in group.members.values():
        reply = JoinReply(
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=leader,
            member_id=member.member_id,
            members=group.joined_members() if member.member_id == leader else (),
        )
        step.answer_join(member, reply)
        step.expect_heartbeat(member)
        member.is_new = False
        group.pending_syncs.add(member.member_id)
    step.expect_syncs(group.rebalance_timeout_ms)
