"""ConsumerGroupDescribe (69), versions 0 and 1: KIP-848 groups, their members, with assignments and targets.

Version 1 also tells which members use the classic protocol. The client must be allowed to describe every topic of the
group's members. Classic groups are not found: see DescribeGroups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.group.consumer.consumer_effects import (
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedTopicPartitions,
)
from broker_core.handlers.call import Call
from broker_core.handlers.gathered_answers import GatheredAnswers
from broker_core.handlers.topic_answers import NOT_ASKED_FOR
from broker_core.model.access_control import Operation, ResourceType, operations_bit_field
from broker_core.model.exceptions import StreamlogError

_CLASSIC, _MODERN = 0, 1


def handle(call: Call) -> None:
    refusals, allowed = [], dict[int, str]()
    # By their places: a group that is asked about twice is described twice, as Kafka does it.
    for place, group_id in enumerate(call.message.group_ids):
        if not call.is_allowed(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            refusals.append(_refusal(group_id, ErrorCode.group_authorization_failed))
        elif not group_id:
            refusals.append(_refusal(group_id, ErrorCode.invalid_group_id))
        else:
            allowed[place] = group_id
    gathered = GatheredAnswers(allowed, lambda answers: call.respond(groups=[*refusals, *answers.values()]))
    for place, group_id in allowed.items():
        _describe(call, group_id, partial(gathered.add, place))


def _describe(call: Call, group_id: str, answer: Callable[[dict[str, Any]], None]) -> None:
    def described(group: DescribedConsumerGroup) -> None:
        answer(_answer(call, group))

    def refused(error: StreamlogError) -> None:
        answer(_refusal(group_id, error.error_code))

    call.node.groups.of(group_id).look(
        lambda coordinator: coordinator.describe_consumer_group(group_id), described, refused
    )


def _refusal(group_id: str, error_code: ErrorCode, message: str | None = None) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "error_code": error_code,
        "error_message": message,
        "authorized_operations": NOT_ASKED_FOR,
    }


def _answer(call: Call, group: DescribedConsumerGroup) -> dict[str, Any]:
    if group.error_code is not ErrorCode.none:
        return _refusal(group.group_id, group.error_code, group.error_message)
    names = {each.topic_name for member in group.members for each in (*member.assignment, *member.target_assignment)}
    if not all(call.is_allowed(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in sorted(names)):
        message = "The group has described topic(s) that the client is not authorized to describe."
        return _refusal(group.group_id, ErrorCode.topic_authorization_failed, message)
    operations = NOT_ASKED_FOR
    if call.message.include_authorized_operations:
        operations = operations_bit_field(call.allowed_operations(ResourceType.GROUP, group.group_id))
    return {
        "error_code": group.error_code,
        "group_id": group.group_id,
        "group_state": group.state,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": group.assignor,
        "members": [_member(member) for member in group.members],
        "authorized_operations": operations,
    }


def _member(member: DescribedConsumerMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": list(member.topic_names),
        "subscribed_topic_regex": member.topic_regex,
        "assignment": _assignment(member.assignment),
        "target_assignment": _assignment(member.target_assignment),
        "member_type": _CLASSIC if member.is_classic else _MODERN,
    }


def _assignment(partitions: Iterable[DescribedTopicPartitions]) -> dict[str, Any]:
    return {
        "topic_partitions": [
            {"topic_id": each.topic_id, "topic_name": each.topic_name, "partitions": list(each.partitions)}
            for each in partitions
        ]
    }
