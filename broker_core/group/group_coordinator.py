"""The group coordinator of one partition of `__consumer_offsets`: its groups, and what they committed.

    event (a request with its ticket, a timer)   ->  the group that it belongs to, of either protocol
                                                 <-  CoordinatorResult(records, GroupEffects)
    replay(record)                               ->  offsets, classic groups, groups of KIP-848

Events change waiting members, running deadlines and rebalances in progress; only replay changes what is stored. The
runner replays an event's records before the next event. If they cannot be appended, the runner drops the coordinator
with everything that waits in it, and rebuilds it from the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.coordinator.contract import CoordinatorResult
from broker_core.group.classic.classic_groups import ClassicGroups
from broker_core.group.classic.classic_messages import HeartbeatRequest, JoinRequest, LeaveRequest, SyncRequest
from broker_core.group.classic.classic_states import ClassicState
from broker_core.group.consumer.consumer_effects import (
    ConsumerHeartbeatReply,
    ConsumerHeartbeatRequest,
    DescribedConsumerGroup,
)
from broker_core.group.consumer.modern_groups import ModernGroups
from broker_core.group.consumer_group_records import ConsumerGroupRecord
from broker_core.group.coordinator_records import AnyGroupRecord
from broker_core.group.foreign_groups import ForeignGroups, ForeignKind, ForeignRecord, newer_record
from broker_core.group.group_descriptions import (
    DeleteGroupReply,
    DescribedGroup,
    ListedGroup,
    described,
    listed,
)
from broker_core.group.group_effects import GroupEffects, GroupResult, answered, joined
from broker_core.group.group_records import GroupMetadataRecord, OffsetCommitRecord, encode_group_record
from broker_core.group.group_settings import GroupSettings
from broker_core.group.offsets.group_offsets import GroupOffsets, TopicIdOf
from broker_core.group.offsets.offset_expiration import expired_offsets, expires_since_ms, since_commit
from broker_core.group.offsets.offset_messages import (
    CommitRequest,
    DeleteOffsetsReply,
    DeleteOffsetsRequest,
    FetchReply,
    FetchRequest,
)
from broker_core.group.offsets.offset_requests import (
    classic_refusal,
    fetched,
    missing_group_refusal,
    plan_commit,
    plan_delete,
    refused_commit,
)
from broker_core.group.timer_keys import classic_timer
from broker_core.model.exceptions import UnsupportedFormatError
from broker_core.model.identifiers import NO_PRODUCER_ID

_HEARD_OF_BY_COMMIT: Final = (ClassicState.STABLE, ClassicState.PREPARING_REBALANCE)


class GroupCoordinator:
    """`new_id` returns a unique text for member ids. `consumer_groups` is set where KIP-848 is served. `topic_id_of`:
    see `GroupOffsets`. What is asked of a foreign group raises RequestRefusedError, or has its reason in the answer."""

    def __init__(
        self, settings: GroupSettings, *, new_id: Callable[[], str], topic_id_of: TopicIdOf | None = None
    ) -> None:
        self.settings = settings
        self.offsets = GroupOffsets(topic_id_of, max_metadata_bytes=settings.max_offset_metadata_bytes)
        self.classic_groups = ClassicGroups(settings, new_id)
        self.consumer_groups: ModernGroups | None = None
        self.foreign_groups = ForeignGroups()

    # -- members of the classic protocol --

    def on_join(self, ticket: int, request: JoinRequest, now_ms: int) -> GroupResult:
        self.foreign_groups.require_served(request.group_id)
        modern = self._modern(request.group_id)
        if modern is None:
            return self.classic_groups.on_join(ticket, request, now_ms)
        if not modern.is_empty(request.group_id):
            return modern.on_join(ticket, request, now_ms)
        ended = CoordinatorResult(records=modern.tombstones(request.group_id), reply=GroupEffects())
        return joined(ended, self.classic_groups.on_join(ticket, request, now_ms))

    def on_sync(self, ticket: int, request: SyncRequest, now_ms: int) -> GroupResult:
        self.foreign_groups.require_served(request.group_id)
        return (self._modern(request.group_id) or self.classic_groups).on_sync(ticket, request, now_ms)

    def on_heartbeat(self, ticket: int, request: HeartbeatRequest, now_ms: int) -> GroupResult:
        self.foreign_groups.require_served(request.group_id)
        return (self._modern(request.group_id) or self.classic_groups).on_heartbeat(ticket, request, now_ms)

    def on_leave(self, ticket: int, request: LeaveRequest, now_ms: int) -> GroupResult:
        self.foreign_groups.require_served(request.group_id)
        return (self._modern(request.group_id) or self.classic_groups).on_leave(ticket, request, now_ms)

    # -- members of the protocol of KIP-848 --

    def on_consumer_heartbeat(self, ticket: int, request: ConsumerHeartbeatRequest, now_ms: int) -> GroupResult:
        self.foreign_groups.require_served(request.group_id)
        if self.consumer_groups is None:
            return answered(ticket, ConsumerHeartbeatReply(error_code=ErrorCode.unsupported_version))
        return self.consumer_groups.on_consumer_heartbeat(ticket, request, now_ms)

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        if self.consumer_groups is None:
            return DescribedConsumerGroup(group_id=group_id, error_code=ErrorCode.unsupported_version)
        refusal = self.foreign_groups.refusal_of(group_id)
        if refusal is not None:
            return DescribedConsumerGroup(
                group_id=group_id, error_code=ErrorCode.group_id_not_found, error_message=refusal
            )
        return self.consumer_groups.describe(group_id)

    def on_topics_changed(self, now_ms: int) -> GroupResult:
        """Topics were created, deleted or extended."""
        if self.consumer_groups is None:
            return CoordinatorResult(reply=GroupEffects())
        return self.consumer_groups.on_topics_changed(now_ms)

    # -- committed offsets --

    def on_commit_offsets(self, ticket: int, request: CommitRequest, now_ms: int) -> GroupResult:
        """A commit counts as a heartbeat of a classic member."""
        self.foreign_groups.require_served(request.group_id)
        refusal = self._commit_refusal(request, is_transactional=False)
        if refusal is not ErrorCode.none:
            return answered(ticket, refused_commit(request, refusal))
        committed = self._planned_commit(ticket, request, now_ms, takes_nameless=True)
        group = self.classic_groups.get(request.group_id)
        if group is None or request.member_id not in group.members or group.state not in _HEARD_OF_BY_COMMIT:
            return committed
        heard = self.classic_groups.expect_heartbeat(group, request.member_id, now_ms)
        return joined(committed, CoordinatorResult(reply=heard))

    def on_txn_commit_offsets(self, ticket: int, request: CommitRequest, now_ms: int) -> GroupResult:
        """The runner appends the records in a batch of the producer's transaction."""
        self.foreign_groups.require_served(request.group_id)
        refusal = self._commit_refusal(request, is_transactional=True)
        if refusal is not ErrorCode.none:
            return answered(ticket, refused_commit(request, refusal))
        return self._planned_commit(ticket, request, now_ms)

    def fetch_offsets(self, request: FetchRequest) -> FetchReply:
        """A group that does not exist has no offsets; that is no error. Those of a streams group can be read."""
        if self.foreign_groups.kind_of(request.group_id) is ForeignKind.NEWER:
            self.foreign_groups.require_served(request.group_id)
        modern = self._modern(request.group_id)
        refusal = ErrorCode.none if modern is None else modern.fetch_refusal(request)
        if refusal is not ErrorCode.none:
            return FetchReply(error_code=refusal)
        return fetched(self.offsets, request)

    def delete_offsets(self, ticket: int, request: DeleteOffsetsRequest) -> GroupResult:
        """Deletes offsets of topics that no member subscribes to. The subscriptions of other classic groups are
        unknown."""
        self.foreign_groups.require_served(request.group_id)
        if not request.group_id:
            return answered(ticket, DeleteOffsetsReply(error_code=ErrorCode.invalid_group_id))
        modern, group = self._modern(request.group_id), self.classic_groups.get(request.group_id)
        if modern is None and group is None:
            return answered(ticket, DeleteOffsetsReply(error_code=ErrorCode.group_id_not_found))
        if group is not None and not group.is_empty and not group.is_consumer_group:
            return answered(ticket, DeleteOffsetsReply(error_code=ErrorCode.non_empty_group))
        free = tuple(each for each in request.partitions if not self._is_subscribed_to(request.group_id, each.topic))
        errors = {
            each: ErrorCode.none if each in free else ErrorCode.group_subscribed_to_topic for each in request.partitions
        }
        records = plan_delete(self.offsets, request.group_id, free)
        return answered(ticket, DeleteOffsetsReply(errors=errors), records)

    def forget_topic(self, topic: str, *, topic_id: UUID | None = None) -> GroupResult:
        """The topic was deleted: its committed offsets are deleted."""
        planned = self.offsets.plan_forget_topic(topic, topic_id=topic_id)
        return CoordinatorResult(records=planned.records, reply=GroupEffects())

    def group_ids(self) -> tuple[str, ...]:
        """The ids of all groups of both protocols, and of deleted ones that are still remembered, ordered."""
        modern = () if self.consumer_groups is None else tuple(self.consumer_groups.listed())
        classic = (group.group_id for group in self.classic_groups)
        return tuple(sorted({*classic, *(each.group_id for each in modern), *self.offsets.held_group_ids()}))

    def plan_expire_offsets(self, now_ms: int, group_ids: Iterable[str] | None = None) -> GroupResult:
        """Tombstones for offsets older than offsets.retention.minutes by the rule of their group, and for groups that
        end with them. For all groups, or only for these: thousands take a while."""
        wanted = self.group_ids() if group_ids is None else group_ids
        records = tuple(record for group_id in wanted for record in self._expired_of(group_id, now_ms))
        return CoordinatorResult(records=records, reply=GroupEffects())

    def _expired_of(self, group_id: str, now_ms: int) -> tuple[AnyGroupRecord, ...]:
        if group_id in self.foreign_groups:
            return ()  # it is not known who still needs them
        group, modern = self.classic_groups.get(group_id), self._modern(group_id)
        self.offsets.forget_rolled_back(group_id)
        expired = expired_offsets(
            self.offsets,
            group_id,
            since_ms=expires_since_ms(group) if modern is None and group is not None else since_commit,
            is_subscribed_to=lambda topic: self._is_subscribed_to(group_id, topic),
            retention_ms=self.settings.offsets_retention_ms,
            now_ms=now_ms,
        )
        is_over = expired.leaves_nothing and self._may_end(group_id)
        return (*expired.tombstones, *(self._group_tombstones(group_id) if is_over else ()))

    # -- groups as a whole --

    def delete_group(self, ticket: int, group_id: str) -> GroupResult:
        """Deletes the group with all its offsets, including those that open transactions may still commit."""
        self.foreign_groups.require_served(group_id)
        modern, group = self._modern(group_id), self.classic_groups.get(group_id)
        if modern is None and group is None:
            return answered(ticket, DeleteGroupReply(error_code=ErrorCode.group_id_not_found))
        if not (modern.is_empty(group_id) if modern else group is not None and group.is_empty):
            return answered(ticket, DeleteGroupReply(error_code=ErrorCode.non_empty_group))
        partitions = (*self.offsets.stored(group_id), *self.offsets.pending_partitions(group_id))
        records = (*plan_delete(self.offsets, group_id, partitions), *self._group_tombstones(group_id))
        return answered(ticket, DeleteGroupReply(), records)

    def describe(self, group_id: str) -> DescribedGroup:
        """Describes a classic group. A group of another protocol is not found (see ConsumerGroupDescribe)."""
        group, refusal = self.classic_groups.get(group_id), self.foreign_groups.refusal_of(group_id)
        if refusal is not None:
            return DescribedGroup(group_id=group_id, error_code=ErrorCode.group_id_not_found, error_message=refusal)
        if group is not None:
            return described(group)
        is_modern = self._modern(group_id) is not None
        message = f"Group {group_id} is not a classic group." if is_modern else f"Group {group_id} not found."
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.group_id_not_found, error_message=message)

    def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> tuple[ListedGroup, ...]:
        """Served groups with one of the states and one of the types, case-insensitive; all if none is given."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {name.strip().lower() for name in types}
        modern = () if self.consumer_groups is None else tuple(self.consumer_groups.listed())
        return tuple(
            each
            for each in (*(listed(group) for group in self.classic_groups), *modern)
            if each.group_id not in self.foreign_groups
            and (not states or each.state.lower() in wanted_states)
            and (not types or each.group_type.value.lower() in wanted_types)
        )

    # -- time --

    def on_timer(self, key: str, now_ms: int) -> GroupResult:
        if classic_timer(key) is not None:
            return self.classic_groups.on_timer(key, now_ms)
        if self.consumer_groups is not None:
            return self.consumer_groups.on_timer(key, now_ms)
        return CoordinatorResult(reply=GroupEffects())

    def on_loaded(self, now_ms: int) -> GroupResult:
        """The log was replayed: the members' sessions start now."""
        classic = self.classic_groups.on_loaded(now_ms)
        return classic if self.consumer_groups is None else joined(classic, self.consumer_groups.on_loaded(now_ms))

    # -- replay --

    def replay(self, record: AnyGroupRecord, *, record_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Applies the record at `record_offset`. `producer_id`: that of its batch if it is transactional, else -1."""
        if isinstance(record, OffsetCommitRecord):
            self.offsets.replay(record, record_offset=record_offset, producer_id=producer_id)
            if record.value is not None and self._modern(record.group_id) is None:
                self.classic_groups.make_simple(record.group_id)
        elif isinstance(record, GroupMetadataRecord):
            self._replay_classic(record)
        elif isinstance(record, ForeignRecord):
            self.foreign_groups.replay(record)
        elif isinstance(record, ConsumerGroupRecord) and self.consumer_groups is not None:
            self.consumer_groups.replay(record)

    def _replay_classic(self, record: GroupMetadataRecord) -> None:
        try:
            self.classic_groups.replay(record)
        except UnsupportedFormatError:
            self.foreign_groups.replay(newer_record(encode_group_record(record, timestamp_ms=0).key or b""))

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """The producer's transaction ended: its pending offsets are committed or dropped."""
        self.offsets.replay_marker(producer_id, is_commit=is_commit)

    # -- one group, of either protocol --

    def _modern(self, group_id: str) -> ModernGroups | None:
        groups = self.consumer_groups
        return groups if groups is not None and groups.has(group_id) else None

    def _is_subscribed_to(self, group_id: str, topic: str) -> bool:
        modern, group = self._modern(group_id), self.classic_groups.get(group_id)
        if modern is not None:
            return modern.is_subscribed_to(group_id, topic)
        return group is not None and group.is_subscribed_to(topic)

    def _may_end(self, group_id: str) -> bool:
        modern, group = self._modern(group_id), self.classic_groups.get(group_id)
        if modern is not None:
            return modern.is_empty(group_id)
        return group is not None and group.is_empty and not group.pending_joins

    def _group_tombstones(self, group_id: str) -> tuple[AnyGroupRecord, ...]:
        modern = self._modern(group_id)
        return (GroupMetadataRecord(group_id=group_id),) if modern is None else modern.tombstones(group_id)

    def _commit_refusal(self, request: CommitRequest, *, is_transactional: bool) -> ErrorCode:
        modern, group = self._modern(request.group_id), self.classic_groups.get(request.group_id)
        if modern is not None:
            return modern.commit_refusal(request, is_transactional=is_transactional)
        if group is None:
            return missing_group_refusal(request, is_transactional=is_transactional)
        return classic_refusal(group, request, is_transactional=is_transactional)

    def _planned_commit(
        self, ticket: int, request: CommitRequest, now_ms: int, *, takes_nameless: bool = False
    ) -> GroupResult:
        records, reply = plan_commit(
            self.offsets,
            request,
            now_ms=now_ms,
            max_record_bytes=self.settings.max_record_bytes,
            takes_nameless=takes_nameless,
        )
        return answered(ticket, reply, records)
