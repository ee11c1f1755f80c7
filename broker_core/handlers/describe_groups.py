"""DescribeGroups (15), versions 0 to 6: classic groups and their members.

A missing group is an error from version 6 on; before, it is described as Dead. Groups of KIP-848 are not found here:
see ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.group.group_descriptions import DescribedGroup
from broker_core.handlers.call import Call
from broker_core.handlers.gathered_answers import GatheredAnswers
from broker_core.handlers.topic_answers import NOT_ASKED_FOR
from broker_core.model.access_control import Operation, ResourceType, operations_bit_field
from broker_core.model.exceptions import StreamlogError

_FIRST_VERSION_WITH_UNKNOWN_GROUPS: Final = 6


def handle(call: Call) -> None:
    group_ids = tuple(dict.fromkeys(call.message.groups))
    allowed = tuple(each for each in group_ids if call.is_allowed(Operation.DESCRIBE, ResourceType.GROUP, each))
    refusals = [
        _refusal(group_id, ErrorCode.group_authorization_failed) for group_id in group_ids if group_id not in allowed
    ]

    gathered = GatheredAnswers(allowed, lambda answers: call.respond(groups=[*refusals, *answers.values()]))
    for group_id in allowed:
        _describe(call, group_id, partial(gathered.add, group_id))


def _describe(call: Call, group_id: str, answer: Callable[[dict[str, Any]], None]) -> None:
    def described(group: DescribedGroup) -> None:
        answer(_answer(call, group))

    def refused(error: StreamlogError) -> None:
        answer(_refusal(group_id, error.error_code))

    call.node.groups.of(group_id).look(lambda coordinator: coordinator.describe(group_id), described, refused)


def _refusal(group_id: str, error_code: ErrorCode) -> dict[str, Any]:
    return {"group_id": group_id, "error_code": error_code, "authorized_operations": NOT_ASKED_FOR}


def _answer(call: Call, group: DescribedGroup) -> dict[str, Any]:
    error_code = group.error_code if call.version >= _FIRST_VERSION_WITH_UNKNOWN_GROUPS else ErrorCode.none
    operations = NOT_ASKED_FOR
    if call.request_field("include_authorized_operations", False) and error_code is ErrorCode.none:
        operations = operations_bit_field(call.allowed_operations(ResourceType.GROUP, group.group_id))
    return {
        "error_code": error_code,
        "error_message": group.error_message,
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol_data,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in group.members
        ],
        "authorized_operations": operations,
    }
