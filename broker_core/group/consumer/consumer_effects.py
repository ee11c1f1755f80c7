"""Requests of the KIP-848 group protocol, their replies, and descriptions of groups.

Fields are named as Kafka's schemas name them, without what only the wire needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.group.consumer_group_records import Partitions

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member leaves for a while: its partitions wait for its instance id until its session times out."""


def sees_every_topic(_topic: str) -> bool:
    """Without an authorizer."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatRequest:
    """None, and -1 of `rebalance_timeout_ms`: as it was in the last heartbeat.

    `member_id` may be empty, and one is made up for it, unless `has_own_id`: version 1 and later (KIP-1082).
    `client_host` as Kafka stores it, "/127.0.0.1". `sees_topic`: which topics a regular expression may find for this
    client; asked a little after the answer, too.
    """

    group_id: str
    member_id: str
    member_epoch: int
    has_own_id: bool = True
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] | None = None
    topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    sees_topic: Callable[[str], bool] = sees_every_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatReply:
    """`assignment` None: as it was. The member gives up what is not in it, and says so in its next heartbeat."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopicPartitions:
    topic_id: UUID
    topic_name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerMember:
    """`assignment` with what the member is still to give up."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_regex: str | None
    assignment: tuple[DescribedTopicPartitions, ...]
    target_assignment: tuple[DescribedTopicPartitions, ...]
    is_classic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    group_id: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumerMember, ...] = ()


class GroupRequestError(Exception):
    """Ends an event with an error for its own request and no change. It never leaves this room."""

    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message
