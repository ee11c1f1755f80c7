"""DeleteGroups (42), versions 0 to 2: deletes groups without members and their offsets, each by itself."""

from __future__ import annotations

from functools import partial

from kio.schema.errors import ErrorCode

from broker_core.group.group_descriptions import DeleteGroupReply
from broker_core.handlers.call import Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError


def handle(call: Call) -> None:
    group_ids = tuple(dict.fromkeys(call.message.groups_names))
    errors: dict[str, ErrorCode] = {}

    def answer(group_id: str, error_code: ErrorCode) -> None:
        errors[group_id] = error_code
        if len(errors) == len(group_ids):
            call.respond(results=[{"group_id": each, "error_code": errors[each]} for each in group_ids])

    if not group_ids:
        call.respond(results=[])
    for group_id in group_ids:
        if call.is_allowed(Operation.DELETE, ResourceType.GROUP, group_id):
            _delete(call, group_id, partial(answer, group_id))
        else:
            answer(group_id, ErrorCode.group_authorization_failed)


def _delete(call: Call, group_id: str, answer: partial[None]) -> None:
    def answered(reply: DeleteGroupReply) -> None:
        answer(reply.error_code)

    def refused(error: StreamlogError) -> None:
        answer(error.error_code)

    call.node.groups.of(group_id).request(
        lambda coordinator, ticket, now_ms: coordinator.delete_group(ticket, group_id), answered, refused
    )
