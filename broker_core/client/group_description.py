"""A group's state and members, from its coordinator: requested as a KIP-848 group first, then as a classic one.

Kafka's own clients do the same: no single request returns both the group's protocol and its description. Neither
request finds groups of other kinds, for example of Kafka Streams: only their offsets are visible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId

from broker_core.client.broker_connection import BrokerConnection
from broker_core.client.broker_errors import broker_error
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.coordinator_finder import CoordinatorType
from broker_core.client.deadline import Deadline
from broker_core.client.remote_group_offsets import RemoteGroupOffsets
from broker_core.cluster import GroupDescription, GroupMember
from broker_core.model.exceptions import CorruptBatchError
from broker_core.model.group_state import GroupState
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey

_IS_CLASSIC: Final = frozenset({ErrorCode.group_id_not_found, ErrorCode.unsupported_version})
"""A broker's errors for a group that is not of KIP-848, and for any group if that protocol is disabled."""


def describe_group(router: BrokerRouter, group_id: str) -> GroupDescription:
    """See `Cluster`."""
    what = f"describe group {group_id!r}"

    def attempt(deadline: Deadline) -> GroupDescription:
        coordinator = router.node(router.coordinator(CoordinatorType.GROUP, group_id, deadline), deadline)
        return _as_modern(coordinator, group_id, what, deadline) or _as_classic(coordinator, group_id, what, deadline)

    found = router.run(what, attempt)
    if found.state is GroupState.DEAD and RemoteGroupOffsets(router).fetch(group_id, None):
        return replace(found, state=GroupState.UNKNOWN)
    return found


def _as_modern(coordinator: BrokerConnection, group_id: str, what: str, deadline: Deadline) -> GroupDescription | None:
    from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest

    if not coordinator.supports(ApiKey.CONSUMER_GROUP_DESCRIBE, 0):
        return None
    request = ConsumerGroupDescribeRequest(group_ids=(GroupId(group_id),), include_authorized_operations=False)
    (answer,) = coordinator.ask([request], deadline)
    (group,) = answer.groups
    if group.error_code in _IS_CLASSIC:
        return None
    if group.error_code != ErrorCode.none:
        raise broker_error(group.error_code, what, group.error_message)
    return GroupDescription(
        group_id=group_id,
        state=GroupState.named(group.group_state),
        assignor=group.assignor_name,
        members=tuple(
            _member(
                member,
                member.instance_id,
                ((topic.topic_name, topic.partitions) for topic in member.assignment.topic_partitions),
            )
            for member in group.members
        ),
    )


def _as_classic(coordinator: BrokerConnection, group_id: str, what: str, deadline: Deadline) -> GroupDescription:
    from kio.schema.describe_groups.v5.request import DescribeGroupsRequest

    from broker_core.group.subscribed_topics import CONSUMER_PROTOCOL_TYPE

    request = DescribeGroupsRequest(groups=(GroupId(group_id),), include_authorized_operations=False)
    (answer,) = coordinator.ask([request], deadline)
    (group,) = answer.groups
    if group.error_code != ErrorCode.none:
        raise broker_error(group.error_code, what)
    shares_partitions = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    return GroupDescription(
        group_id=group_id,
        state=GroupState.named(group.group_state),
        assignor=group.protocol_data if shares_partitions else "",
        members=tuple(
            _member(member, member.group_instance_id, _assigned(member) if shares_partitions else ())
            for member in group.members
        ),
    )


def _member(member: Any, instance_id: str | None, assigned: Iterable[tuple[str, Iterable[int]]]) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        instance_id=instance_id,
        partitions=tuple(sorted(TopicPartition(topic, number) for topic, numbers in assigned for number in numbers)),
    )


def _assigned(member: Any) -> Iterable[tuple[str, Iterable[int]]]:
    """None if the assignment cannot be parsed: the group's leader wrote it, not the broker."""
    from broker_core.group.consumer.consumer_protocol import decode_assignment

    try:
        return decode_assignment(member.member_assignment).partitions.items()
    except CorruptBatchError:
        return ()
