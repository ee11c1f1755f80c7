"""Descriptions of groups: ListGroups, DescribeGroups, DeleteGroups."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_group import ClassicGroup
from broker_core.group.classic.classic_states import ClassicState


class GroupType(enum.Enum):
    """The value is Kafka's name for it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    group_type: GroupType


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """`metadata` is set only for a Stable group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A classic group. A missing one has GROUP_ID_NOT_FOUND and the state Dead: versions below 6 of DescribeGroups have
    only the state."""

    group_id: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    state: str = ClassicState.DEAD.value
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupReply:
    error_code: ErrorCode = ErrorCode.none


def listed(group: ClassicGroup) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        state=group.state.value,
        group_type=GroupType.CLASSIC,
    )


def described(group: ClassicGroup) -> DescribedGroup:
    is_stable = group.state is ClassicState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=tuple(
            DescribedMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata_of(group.protocol_name) if is_stable else b"",
                assignment=member.assignment,
            )
            for member in group.members.values()
        ),
    )
