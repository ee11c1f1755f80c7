"""The KIP-848 groups of one partition of `__consumer_offsets`; routes each event to its group.

A group is created by its first member or by a record. Without members it stays, with its offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.coordinator.contract import CoordinatorResult
from broker_core.group.classic.classic_groups import ClassicGroups
from broker_core.group.classic.classic_messages import (
    HeartbeatReply,
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveRequest,
    SyncReply,
    SyncRequest,
)
from broker_core.group.consumer.consumer_classic_members import heartbeat_of_classic, join, leave, sync
from broker_core.group.consumer.consumer_departure import end_group, leave_for_a_while, remove_members
from broker_core.group.consumer.consumer_description import described_consumer_group
from broker_core.group.consumer.consumer_effects import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    DescribedConsumerGroup,
    GroupRequestError,
)
from broker_core.group.consumer.consumer_group import ConsumerGroup
from broker_core.group.consumer.consumer_heartbeat import check_heartbeat, check_instance, heartbeat, known_member
from broker_core.group.consumer.consumer_member import MemberState
from broker_core.group.consumer.consumer_migration import maybe_downgrade, upgraded
from broker_core.group.consumer.consumer_offsets_access import commit_refusal, fetch_refusal
from broker_core.group.consumer.consumer_regexes import resolve_regexes
from broker_core.group.consumer.consumer_settings import ConsumerGroupSettings
from broker_core.group.consumer.consumer_step import (
    REBALANCE,
    REGEX,
    ConsumerStep,
    ConsumerTimer,
    ConsumerWorld,
    consumer_timer,
)
from broker_core.group.consumer_group_records import ConsumerGroupRecord, ConsumerRecordType
from broker_core.group.coordinator_records import AnyGroupRecord
from broker_core.group.group_descriptions import GroupType, ListedGroup
from broker_core.group.group_effects import GroupEffects, GroupResult, TimerChange, answered, joined
from broker_core.group.group_records import GroupMetadataRecord
from broker_core.group.offsets.offset_messages import CommitRequest, FetchRequest
from broker_core.group.subscribed_topics import CONSUMER_PROTOCOL_TYPE
from broker_core.group.topic_view import TopicView

_NOTHING: Final[GroupResult] = CoordinatorResult(reply=GroupEffects())


class ConsumerGroups:
    """`settings_of` returns a group's current settings, if groups differ. `topics` is refreshed by its owner; `new_id`
    returns a unique text for member ids."""

    def __init__(
        self,
        settings: ConsumerGroupSettings,
        *,
        topics: TopicView,
        classic_groups: ClassicGroups,
        new_id: Callable[[], str],
        settings_of: Callable[[str], ConsumerGroupSettings] | None = None,
    ) -> None:
        self._world = ConsumerWorld(
            topics=topics, settings=settings, settings_of=settings_of or (lambda _: settings), deadlines={}
        )
        self._seen_version = topics.version
        self._classic = classic_groups
        self._new_id = new_id
        self._groups: dict[str, ConsumerGroup] = {}

    # -- what is known --

    def has(self, group_id: str) -> bool:
        return group_id in self._groups

    def is_empty(self, group_id: str) -> bool:
        return not self._groups[group_id].members

    def is_subscribed_to(self, group_id: str, topic: str) -> bool:
        group = self._groups[group_id]
        return topic in group.topic_names(group.members.values())

    def listed(self) -> Iterable[ListedGroup]:
        return (
            ListedGroup(
                group_id=group.group_id,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                state=group.state.value,
                group_type=GroupType.CONSUMER,
            )
            for group in self._groups.values()
        )

    def describe(self, group_id: str) -> DescribedConsumerGroup:
        group = self._groups.get(group_id)
        if group is not None:
            return described_consumer_group(group, self._world)
        is_classic = self._classic.get(group_id) is not None
        message = f"Group {group_id} is not a consumer group." if is_classic else f"Group {group_id} not found."
        return DescribedConsumerGroup(group_id=group_id, error_code=ErrorCode.group_id_not_found, error_message=message)

    def commit_refusal(self, request: CommitRequest, *, is_transactional: bool) -> ErrorCode:
        """`none`: the offsets may be stored."""
        group = self._groups[request.group_id]
        return commit_refusal(group, request, self._world.topics, is_transactional=is_transactional)

    def fetch_refusal(self, request: FetchRequest) -> ErrorCode:
        return fetch_refusal(self._groups[request.group_id], request)

    def tombstones(self, group_id: str) -> tuple[AnyGroupRecord, ...]:
        """The records that end the group, without its offsets. The group is empty, so it has no timers."""
        step = ConsumerStep(self._groups[group_id], self._world, 0)
        end_group(step)
        return step.result().records

    # -- requests --

    def on_consumer_heartbeat(self, ticket: int, request: ConsumerHeartbeatRequest, now_ms: int) -> GroupResult:
        try:
            check_heartbeat(request, self._world.settings)
            if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
                return self._leave(ticket, request, now_ms)
            made = self._group_of(request, now_ms)
            step = ConsumerStep(made.group, self._world, now_ms)
            heartbeat(step, ticket, request, self._new_id)
        except GroupRequestError as refusal:
            reply = ConsumerHeartbeatReply(error_code=refusal.error_code, error_message=refusal.message)
            return answered(ticket, reply)
        if made.group is self._groups.get(request.group_id):
            return step.result()
        ended = self._classic_end(request.group_id, now_ms)
        self._groups[request.group_id] = made.group
        for member in made.group.members.values():
            made.expect_heartbeat(member)
        return joined(ended, made.result(), step.result())

    def _classic_end(self, group_id: str, now_ms: int) -> GroupResult:
        if self._classic.get(group_id) is None:
            return _NOTHING
        return self._classic.plan_release(group_id, ErrorCode.rebalance_in_progress, now_ms)

    def _group_of(self, request: ConsumerHeartbeatRequest, now_ms: int) -> ConsumerStep:
        """The existing group, or a new one with the records that make it. Raises GroupRequestError."""
        group = self._groups.get(request.group_id)
        if group is not None:
            return ConsumerStep(group, self._world, now_ms)
        classic = self._classic.get(request.group_id)
        if request.member_epoch != JOIN_EPOCH:
            kind = "Consumer group {} not found." if classic is None else "Group {} is not a consumer group."
            raise GroupRequestError(ErrorCode.group_id_not_found, kind.format(request.group_id))
        if classic is None or classic.is_empty:
            return ConsumerStep(ConsumerGroup(request.group_id), self._world, now_ms)
        return upgraded(classic, self._world, now_ms)

    def _leave(self, ticket: int, request: ConsumerHeartbeatRequest, now_ms: int) -> GroupResult:
        group = self._groups.get(request.group_id)
        if group is None:
            is_classic = self._classic.get(request.group_id) is not None
            kind = "Group {} is not a consumer group." if is_classic else "Group {} not found."
            raise GroupRequestError(ErrorCode.group_id_not_found, kind.format(request.group_id))
        if request.instance_id is None:
            member = known_member(group, request.member_id)
        else:
            holder = group.static_member(request.instance_id)
            member = check_instance(holder, request.member_id, request.instance_id)
        step = ConsumerStep(group, self._world, now_ms)
        if request.instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
            leave_for_a_while(step, member)
        elif not maybe_downgrade(step, (member,)):
            remove_members(step, (member,))
        step.answer(ticket, ConsumerHeartbeatReply(member_id=member.member_id, member_epoch=request.member_epoch))
        return step.result()

    # -- requests of members that speak the classic protocol --

    def on_join(self, ticket: int, request: JoinRequest, now_ms: int) -> GroupResult:
        """For a group with members: an empty one was replaced by a classic group before this call."""
        step = ConsumerStep(self._groups[request.group_id], self._world, now_ms)
        try:
            refusal_code = self._classic.refusal_of_join(request)
            if refusal_code is not ErrorCode.none:
                raise GroupRequestError(refusal_code, "")
            join(step, ticket, request, self._new_id)
        except GroupRequestError as refusal:
            return answered(ticket, JoinReply(member_id=request.member_id, error_code=refusal.error_code))
        return step.result()

    def on_sync(self, ticket: int, request: SyncRequest, now_ms: int) -> GroupResult:
        step = ConsumerStep(self._groups[request.group_id], self._world, now_ms)
        try:
            sync(step, ticket, request)
        except GroupRequestError as refusal:
            return answered(ticket, SyncReply(error_code=refusal.error_code))
        return step.result()

    def on_heartbeat(self, ticket: int, request: HeartbeatRequest, now_ms: int) -> GroupResult:
        step = ConsumerStep(self._groups[request.group_id], self._world, now_ms)
        try:
            heartbeat_of_classic(step, ticket, request)
        except GroupRequestError as refusal:
            return answered(ticket, HeartbeatReply(error_code=refusal.error_code))
        return step.result()

    def on_leave(self, ticket: int, request: LeaveRequest, now_ms: int) -> GroupResult:
        step = ConsumerStep(self._groups[request.group_id], self._world, now_ms)
        leave(step, ticket, request)
        return step.result()

    # -- time and topics --

    def on_timer(self, key: str, now_ms: int) -> GroupResult:
        """A timer that was cancelled or moved in the meantime does nothing."""
        deadline_ms = self._world.deadlines.get(key)
        if deadline_ms is None:
            return _NOTHING
        if deadline_ms > now_ms:
            return CoordinatorResult(reply=GroupEffects(timers=(TimerChange(key=key, at_ms=deadline_ms),)))
        del self._world.deadlines[key]
        timer = consumer_timer(key)
        group = self._groups.get(timer.group_id)
        if group is None:
            return _NOTHING
        step = ConsumerStep(group, self._world, now_ms)
        self._on_due(step, timer)
        return step.result()

    def _on_due(self, step: ConsumerStep, timer: ConsumerTimer) -> None:
        if timer.kind == REGEX:
            resolve_regexes(step)
            return
        member = step.group.members.get(timer.member_id)
        if member is None or (timer.kind == REBALANCE and member.state is not MemberState.UNREVOKED_PARTITIONS):
            return
        if not maybe_downgrade(step, (member,)):
            remove_members(step, (member,))

    def on_topics_changed(self, now_ms: int) -> GroupResult:
        """Topics were created, deleted or extended: each group looks at them at the next heartbeat of a member."""
        topics, seen = self._world.topics, self._seen_version
        has_new, self._seen_version = topics.grown_in > seen, topics.version
        for group in self._groups.values():
            group.knows_topics = False
            group.knows_regexes = group.knows_regexes and not has_new
        return _NOTHING

    def on_loaded(self, now_ms: int) -> GroupResult:
        """Starts a session for each member."""
        results = []
        for group in self._groups.values():
            step = ConsumerStep(group, self._world, now_ms)
            for member in group.members.values():
                step.expect_heartbeat(member)
                if member.state is MemberState.UNREVOKED_PARTITIONS and not member.is_classic:
                    step.set_timer(REBALANCE, member.member_id, now_ms + member.metadata.rebalance_timeout_ms)
            results.append(step.result())
        return joined(*results)

    # -- replay --

    def replay(self, record: ConsumerGroupRecord) -> None:
        """A tombstone for a group that does not exist changes nothing."""
        group = self._groups.get(record.group_id)
        if record.type is ConsumerRecordType.GROUP and record.value is None:
            self._groups.pop(record.group_id, None)
            return
        if group is None:
            if record.value is None:
                return
            group = self._groups[record.group_id] = ConsumerGroup(record.group_id)
        if record.value is not None and self._classic.get(record.group_id) is not None:
            # It was created by offsets that lie before the group's own records.
            self._classic.replay(GroupMetadataRecord(group_id=record.group_id))
        group.replay(record)
