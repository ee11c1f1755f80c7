"""SyncGroup (14), versions 0 to 5: the leader sends the assignment, each member gets its own. Parked until it arrives.

From version 5 on the member has to name its protocol (KIP-559).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_messages import SyncReply, SyncRequest
from broker_core.handlers.call import Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError

_FIRST_VERSION_WITH_PROTOCOL: Final = 5


def handle(call: Call) -> None:
    message = call.message
    request = SyncRequest(
        group_id=message.group_id,
        generation_id=message.generation_id,
        member_id=message.member_id,
        group_instance_id=call.request_field("group_instance_id", None),
        protocol_type=call.request_field("protocol_type", None),
        protocol_name=call.request_field("protocol_name", None),
        assignments={each.member_id: bytes(each.assignment) for each in message.assignments},
    )
    has_protocol = request.protocol_type is not None and request.protocol_name is not None
    if call.version >= _FIRST_VERSION_WITH_PROTOCOL and not has_protocol:
        _respond(call, SyncReply(error_code=ErrorCode.inconsistent_group_protocol))
        return
    if not call.is_allowed(Operation.READ, ResourceType.GROUP, request.group_id):
        _respond(call, SyncReply(error_code=ErrorCode.group_authorization_failed))
        return

    def refused(error: StreamlogError) -> None:
        _respond(call, SyncReply(error_code=error.error_code))

    call.node.groups.of(request.group_id).request(
        lambda coordinator, ticket, now_ms: coordinator.on_sync(ticket, request, now_ms),
        lambda reply: _respond(call, reply),
        refused,
    )


def _respond(call: Call, reply: SyncReply) -> None:
    call.respond(
        error_code=reply.error_code,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name,
        assignment=reply.assignment,
    )
