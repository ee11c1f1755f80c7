"""JoinGroup (11), versions 0 to 9: joins or rejoins a classic group. Parked while the group rebalances.

Version 0 has no rebalance timeout: the session timeout is used. From version 4 on a new dynamic member gets an id and
joins again with it (KIP-394); from 9 on a returning leader may be told to skip the assignment (KIP-814).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_messages import JoinProtocol, JoinReply, JoinRequest
from broker_core.handlers.call import Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.durations import milliseconds_of
from broker_core.model.exceptions import StreamlogError

_FIRST_VERSION_WITH_MEMBER_ID_ROUND: Final = 4
_FIRST_VERSION_WITH_NULLABLE_PROTOCOL: Final = 7
_FIRST_VERSION_WITH_SKIPPING: Final = 9


def handle(call: Call) -> None:
    request = _request_of(call)
    if not call.is_allowed(Operation.READ, ResourceType.GROUP, request.group_id):
        _respond(call, JoinReply(error_code=ErrorCode.group_authorization_failed))
        return

    def refused(error: StreamlogError) -> None:
        _respond(call, JoinReply(error_code=error.error_code))

    call.node.groups.of(request.group_id).request(
        lambda coordinator, ticket, now_ms: coordinator.on_join(ticket, request, now_ms),
        lambda reply: _respond(call, reply),
        refused,
    )


def _request_of(call: Call) -> JoinRequest:
    message = call.message
    return JoinRequest(
        group_id=message.group_id,
        member_id=message.member_id,
        group_instance_id=call.request_field("group_instance_id", None),
        client_id=call.client_id,
        client_host=f"/{call.client_host}",
        session_timeout_ms=milliseconds_of(message.session_timeout),
        rebalance_timeout_ms=milliseconds_of(call.request_field("rebalance_timeout", message.session_timeout)),
        protocol_type=message.protocol_type,
        protocols=tuple(JoinProtocol(name=each.name, metadata=bytes(each.metadata)) for each in message.protocols),
        reason=call.request_field("reason", None),
        requires_known_member_id=call.version >= _FIRST_VERSION_WITH_MEMBER_ID_ROUND,
        supports_skipping_assignment=call.version >= _FIRST_VERSION_WITH_SKIPPING,
    )


def _respond(call: Call, reply: JoinReply) -> None:
    is_nullable = call.version >= _FIRST_VERSION_WITH_NULLABLE_PROTOCOL
    call.respond(
        error_code=reply.error_code,
        generation_id=reply.generation_id,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol_name if is_nullable else reply.protocol_name or "",
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            {"member_id": each.member_id, "group_instance_id": each.group_instance_id, "metadata": each.metadata}
            for each in reply.members
        ],
    )
