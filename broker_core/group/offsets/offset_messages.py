"""Requests about the committed offsets of a group, and their replies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.cluster import GroupOffset
from broker_core.group.classic.classic_messages import NO_GENERATION, UNKNOWN_MEMBER_ID
from broker_core.model.identifiers import TopicPartition

NO_OFFSET: Final = GroupOffset(offset=-1)
"""The answer for a partition without a committed offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """OffsetCommit or TxnOffsetCommit. `generation_id`: the member's epoch in a group of KIP-848; -1 without a member
    id is a simple consumer, which uses only the group's offsets. `knows_missing_groups`: OffsetCommit version 9 and
    later."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    offsets: Mapping[TopicPartition, GroupOffset]
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    knows_missing_groups: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReply:
    """The error of each requested partition."""

    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """`partitions` None: all with offsets. `member_epoch` -1: it is not checked."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None = None
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = NO_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    """`committed` is NO_OFFSET if there is none, and beside an error."""

    committed: GroupOffset = NO_OFFSET
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReply:
    """In the order of the request; ordered if it named no partitions."""

    error_code: ErrorCode = ErrorCode.none
    offsets: Mapping[TopicPartition, FetchedOffset] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsetsRequest:
    group_id: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOffsetsReply:
    """With a group error there are no partitions."""

    error_code: ErrorCode = ErrorCode.none
    errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)
