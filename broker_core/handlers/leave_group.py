"""LeaveGroup (13), versions 0 to 5: members leave a classic group; from version 3 on several at once (KIP-345).

Below version 3 there is one member, and its error is that of the answer.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_messages import LeaveReply, LeaveRequest, LeavingMember
from broker_core.handlers.call import Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError

_FIRST_VERSION_WITH_MEMBERS: Final = 3


def handle(call: Call) -> None:
    message = call.message
    members: tuple[LeavingMember, ...]
    if call.version >= _FIRST_VERSION_WITH_MEMBERS:
        members = tuple(
            LeavingMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                reason=getattr(each, "reason", None),
            )
            for each in message.members
        )
    else:
        members = (LeavingMember(member_id=message.member_id),)
    request = LeaveRequest(group_id=message.group_id, members=members)
    if not call.is_allowed(Operation.READ, ResourceType.GROUP, request.group_id):
        call.respond(error_code=ErrorCode.group_authorization_failed)
        return

    def refused(error: StreamlogError) -> None:
        call.respond(error_code=error.error_code)

    call.node.groups.of(request.group_id).request(
        lambda coordinator, ticket, now_ms: coordinator.on_leave(ticket, request, now_ms),
        lambda reply: _respond(call, reply),
        refused,
    )


def _respond(call: Call, reply: LeaveReply) -> None:
    if call.version < _FIRST_VERSION_WITH_MEMBERS:
        errors = [reply.error_code, *(each.error_code for each in reply.members)]
        call.respond(error_code=next((each for each in errors if each is not ErrorCode.none), ErrorCode.none))
        return
    call.respond(
        error_code=reply.error_code,
        members=[
            {
                "member_id": each.member_id,
                "group_instance_id": each.group_instance_id,
                "error_code": each.error_code,
            }
            for each in reply.members
        ],
    )
