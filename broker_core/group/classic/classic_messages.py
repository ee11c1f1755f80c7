"""Requests of the classic group protocol, and their replies: what the versions of the wire have in common.

Fields are named as Kafka's schemas name them. `group_instance_id` is None for a dynamic member (KIP-345).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kio.schema.errors import ErrorCode

UNKNOWN_MEMBER_ID: Final = ""
"""The member id of a client that has none yet."""

NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinProtocol:
    """One assignment protocol that a member supports, with its metadata for it."""

    name: str
    metadata: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """`client_host` as Kafka stores it, "/127.0.0.1". `protocols` in order of preference.

    `requires_known_member_id`: version 4 and later, a new dynamic member gets an id and joins again with it (KIP-394).
    `supports_skipping_assignment`: version 9 and later (KIP-814).
    """

    group_id: str
    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[JoinProtocol, ...]
    reason: str | None = None
    requires_known_member_id: bool = True
    supports_skipping_assignment: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """One member, as sent to the leader. `metadata` is that of the chosen protocol."""

    member_id: str
    group_instance_id: str | None = None
    metadata: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
    """Only the leader gets `members`."""

    error_code: ErrorCode = ErrorCode.none
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = UNKNOWN_MEMBER_ID
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """`assignments` by member id, from the leader. Protocol type and name are None below version 5 (KIP-559)."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReply:
    error_code: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """An administrator names a static member by its instance id alone, with an empty `member_id`."""

    member_id: str = UNKNOWN_MEMBER_ID
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRequest:
    """Below version 3 it has one member."""

    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftMember:
    member_id: str
    group_instance_id: str | None = None
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveReply:
    error_code: ErrorCode = ErrorCode.none
    members: tuple[LeftMember, ...] = ()
