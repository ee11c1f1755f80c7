"""Heartbeat (12), versions 0 to 4: renews the session of a classic member; the answer tells it to rejoin if needed.

As in Kafka a heartbeat succeeds while the groups are loading: no member is removed then.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.group.classic.classic_messages import HeartbeatReply, HeartbeatRequest
from broker_core.handlers.call import Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError


def handle(call: Call) -> None:
    message = call.message
    request = HeartbeatRequest(
        group_id=message.group_id,
        generation_id=message.generation_id,
        member_id=message.member_id,
        group_instance_id=call.request_field("group_instance_id", None),
    )
    if not call.is_allowed(Operation.READ, ResourceType.GROUP, request.group_id):
        call.respond(error_code=ErrorCode.group_authorization_failed)
        return

    def answered(reply: HeartbeatReply) -> None:
        call.respond(error_code=reply.error_code)

    def refused(error: StreamlogError) -> None:
        is_loading = error.error_code is ErrorCode.coordinator_load_in_progress
        call.respond(error_code=ErrorCode.none if is_loading else error.error_code)

    call.node.groups.of(request.group_id).request(
        lambda coordinator, ticket, now_ms: coordinator.on_heartbeat(ticket, request, now_ms), answered, refused
    )
