"""The classic groups of one partition of `__consumer_offsets`; routes each event to its group.

A group is created by the first join without a member id, or by a record: its own, or an offset committed by a client
that is not a member. Its tombstone ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kio.schema.errors import ErrorCode

from broker_core.coordinator.contract import CoordinatorResult
from broker_core.coordinator.record_fields import MAX_STRING_BYTES, fits_string
from broker_core.group.classic.classic_group import ClassicGroup
from broker_core.group.classic.classic_group_records import decode_stored_group
from broker_core.group.classic.classic_join import join
from broker_core.group.classic.classic_messages import (
    UNKNOWN_MEMBER_ID,
    HeartbeatReply,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveReply,
    LeaveRequest,
    LeftMember,
    SyncReply,
    SyncRequest,
)
from broker_core.group.classic.classic_presence import heartbeat, leave, on_session_timer
from broker_core.group.classic.classic_rebalance import on_join_timer, on_sync_timer, prepare_rebalance
from broker_core.group.classic.classic_states import ClassicState
from broker_core.group.classic.classic_step import ClassicStep
from broker_core.group.classic.classic_sync import sync
from broker_core.group.group_effects import GroupEffects, GroupResult, answered, joined
from broker_core.group.group_records import GroupMetadataRecord
from broker_core.group.group_settings import GroupSettings
from broker_core.group.timer_keys import ADOPTED, JOIN, SESSION, SYNC, ClassicTimer, classic_timer

_MEMBER_SUFFIX_CHARACTERS = 64
"""What a client's name grows by when it becomes a member id; a UUID has 36."""


class ClassicGroups:
    """`new_id` returns a unique text for member ids."""

    def __init__(self, settings: GroupSettings, new_id: Callable[[], str]) -> None:
        self._settings = settings
        self._new_id = new_id
        self._groups: dict[str, ClassicGroup] = {}

    def __iter__(self) -> Iterator[ClassicGroup]:
        return iter(self._groups.values())

    def get(self, group_id: str) -> ClassicGroup | None:
        return self._groups.get(group_id)

    # -- requests --

    def on_join(self, ticket: int, request: JoinRequest, now_ms: int) -> GroupResult:
        refusal = _join_refusal(request, self._settings)
        group, is_unknown = self._groups.get(request.group_id), request.member_id == UNKNOWN_MEMBER_ID
        if refusal is ErrorCode.none and group is None and not is_unknown:
            refusal = ErrorCode.unknown_member_id
        if refusal is not ErrorCode.none:
            return answered(ticket, JoinReply(member_id=request.member_id, error_code=refusal))
        is_new = group is None
        if group is None:
            group = self._groups[request.group_id] = ClassicGroup(request.group_id)
        step = ClassicStep(group, self._settings, now_ms)
        join(step, ticket, request, self._new_id)
        if is_new:
            step.store_new()
        return step.result()

    def refusal_of_join(self, request: JoinRequest) -> ErrorCode:
        """The error that needs no group to be found; `none` if the group decides."""
        return _join_refusal(request, self._settings)

    def on_sync(self, ticket: int, request: SyncRequest, now_ms: int) -> GroupResult:
        step = self._step(request.group_id, now_ms)
        if not request.group_id:
            return answered(ticket, SyncReply(error_code=ErrorCode.invalid_group_id))
        if step is None:
            return answered(ticket, SyncReply(error_code=ErrorCode.unknown_member_id))
        sync(step, ticket, request)
        return step.result()

    def on_heartbeat(self, ticket: int, request: HeartbeatRequest, now_ms: int) -> GroupResult:
        step = self._step(request.group_id, now_ms)
        if not request.group_id:
            return answered(ticket, HeartbeatReply(error_code=ErrorCode.invalid_group_id))
        if step is None:
            return answered(ticket, HeartbeatReply(error_code=ErrorCode.unknown_member_id))
        heartbeat(step, ticket, request)
        return step.result()

    def on_leave(self, ticket: int, request: LeaveRequest, now_ms: int) -> GroupResult:
        step = self._step(request.group_id, now_ms)
        if not request.group_id:
            return answered(ticket, LeaveReply(error_code=ErrorCode.invalid_group_id))
        if step is None:
            unknown_members = tuple(
                LeftMember(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    error_code=ErrorCode.unknown_member_id,
                )
                for each in request.members
            )
            return answered(ticket, LeaveReply(members=unknown_members))
        leave(step, ticket, request)
        return step.result()

    def expect_heartbeat(self, group: ClassicGroup, member_id: str, now_ms: int) -> GroupEffects:
        """An offset commit counts as a heartbeat of the member."""
        step = ClassicStep(group, self._settings, now_ms)
        step.expect_heartbeat(group.members[member_id])
        return step.result().reply

    # -- time --

    def on_timer(self, key: str, now_ms: int) -> GroupResult:
        """A timer that was cancelled or moved in the meantime does nothing."""
        timer = classic_timer(key)
        assert timer is not None, f"timer {key!r} is not of classic groups"
        step = self._step(timer.group_id, now_ms)
        if step is None:
            return CoordinatorResult(reply=GroupEffects())
        if timer.kind == ADOPTED:
            _welcome(step)
            return step.result()
        deadline_ms = step.group.deadlines.get(key)
        if deadline_ms is not None and deadline_ms > now_ms:
            step.repeat(key, deadline_ms)
        elif deadline_ms is not None:
            del step.group.deadlines[key]
            _on_due(step, timer)
        return step.result()

    def on_loaded(self, now_ms: int) -> GroupResult:
        """Starts a session for each member. A group above group.max.size rebalances, and the members that join last are
        removed."""
        results = []
        for group in self._groups.values():
            step = ClassicStep(group, self._settings, now_ms)
            for member in group.members.values():
                step.expect_heartbeat(member)
            if len(group.members) > self._settings.max_size:
                prepare_rebalance(step)
            results.append(step.result())
        return joined(*results)

    # -- migration and deletion --

    def plan_release(self, group_id: str, error_code: ErrorCode, now_ms: int) -> GroupResult:
        """Ends the classic group: answers parked requests with `error_code`, cancels its timers, writes its
        tombstone."""
        step = self._step(group_id, now_ms)
        assert step is not None, f"there is no classic group {group_id!r}"
        for member in step.group.members.values():
            step.answer_join(member, JoinReply(member_id=member.member_id, error_code=error_code))
            step.answer_sync(member, SyncReply(error_code=error_code))
        for key in tuple(step.group.deadlines):
            step.cancel_key(key)
        ended = step.result()
        return CoordinatorResult(records=(GroupMetadataRecord(group_id=group_id),), reply=ended.reply)

    # -- replay --

    def replay(self, record: GroupMetadataRecord) -> None:
        """Raises what `decode_stored_group` raises for a value that is not Kafka's."""
        if record.value is None:
            group = self._groups.pop(record.group_id, None)
            if group is not None:
                group.transition_to(ClassicState.DEAD, group.state_timestamp_ms)
            return
        stored = decode_stored_group(record.group_id, record.value)
        self._groups.setdefault(record.group_id, ClassicGroup(record.group_id)).replay(stored)

    def make_simple(self, group_id: str) -> None:
        """A group that never had members has committed offsets."""
        if group_id not in self._groups:
            self._groups[group_id] = ClassicGroup(group_id)

    def _step(self, group_id: str, now_ms: int) -> ClassicStep | None:
        group = self._groups.get(group_id)
        return None if group is None else ClassicStep(group, self._settings, now_ms)


def _on_due(step: ClassicStep, timer: ClassicTimer) -> None:
    if timer.kind == SESSION:
        on_session_timer(step, timer.member_id)
    elif timer.kind == JOIN:
        on_join_timer(step)
    elif timer.kind == SYNC:
        on_sync_timer(step)


def _welcome(step: ClassicStep) -> None:
    for member in step.group.members.values():
        step.expect_heartbeat(member)
    if step.group.state is ClassicState.STABLE:
        prepare_rebalance(step)


def _join_refusal(request: JoinRequest, settings: GroupSettings) -> ErrorCode:
    """Whether the texts, and the member id made from them, fit the group's record."""
    if not request.group_id or not fits_string(request.group_id):
        return ErrorCode.invalid_group_id
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        return ErrorCode.invalid_session_timeout
    names = (request.client_id, request.group_instance_id or "", request.client_host, request.protocol_type)
    texts = (*names, *(protocol.name for protocol in request.protocols))
    if not all(
        fits_string(text) and len(text.encode()) <= MAX_STRING_BYTES - _MEMBER_SUFFIX_CHARACTERS for text in texts
    ):
        return ErrorCode.invalid_request
    return ErrorCode.none
