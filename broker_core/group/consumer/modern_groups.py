"""The group coordinator's interface to groups of other protocols than the classic one: KIP-848.

A group id has one protocol at a time. The coordinator calls `has` first and hands the event over if it returns True.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_messages import HeartbeatRequest, JoinRequest, LeaveRequest, SyncRequest
from broker_core.group.consumer.consumer_effects import ConsumerHeartbeatRequest, DescribedConsumerGroup
from broker_core.group.consumer_group_records import ConsumerGroupRecord
from broker_core.group.coordinator_records import AnyGroupRecord
from broker_core.group.group_descriptions import ListedGroup
from broker_core.group.group_effects import GroupResult
from broker_core.group.offsets.offset_messages import CommitRequest, FetchRequest


class ModernGroups(Protocol):
    """Members of the classic protocol may be in such a group too, while a group is migrated."""

    def has(self, group_id: str) -> bool: ...

    def is_empty(self, group_id: str) -> bool: ...

    def is_subscribed_to(self, group_id: str, topic: str) -> bool: ...

    def listed(self) -> Iterable[ListedGroup]: ...

    def describe(self, group_id: str) -> DescribedConsumerGroup: ...

    def on_consumer_heartbeat(self, ticket: int, request: ConsumerHeartbeatRequest, now_ms: int) -> GroupResult: ...

    def on_topics_changed(self, now_ms: int) -> GroupResult: ...

    def on_join(self, ticket: int, request: JoinRequest, now_ms: int) -> GroupResult:
        """For a group that is not empty: an empty one is replaced by a classic group instead."""
        ...

    def on_sync(self, ticket: int, request: SyncRequest, now_ms: int) -> GroupResult: ...

    def on_heartbeat(self, ticket: int, request: HeartbeatRequest, now_ms: int) -> GroupResult: ...

    def on_leave(self, ticket: int, request: LeaveRequest, now_ms: int) -> GroupResult: ...

    def commit_refusal(self, request: CommitRequest, *, is_transactional: bool) -> ErrorCode: ...

    def fetch_refusal(self, request: FetchRequest) -> ErrorCode: ...

    def tombstones(self, group_id: str) -> tuple[AnyGroupRecord, ...]:
        """The records that end the group, without its offsets."""
        ...

    def on_timer(self, key: str, now_ms: int) -> GroupResult:
        """Handles every key that `timer_keys.classic_timer` does not know."""
        ...

    def on_loaded(self, now_ms: int) -> GroupResult: ...

    def replay(self, record: ConsumerGroupRecord) -> None: ...
