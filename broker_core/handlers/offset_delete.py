"""OffsetDelete (47), version 0: deletes offsets of topics that no member of the group subscribes to."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.group.offsets.offset_messages import DeleteOffsetsReply, DeleteOffsetsRequest
from broker_core.handlers.call import Call
from broker_core.handlers.committed_partitions import AskedPartition, answer_topics, asked_partitions
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError


def handle(call: Call) -> None:
    group_id = call.message.group_id
    if not call.is_allowed(Operation.DELETE, ResourceType.GROUP, group_id):
        call.respond(error_code=ErrorCode.group_authorization_failed)
        return
    asked = asked_partitions(
        call,
        call.message.topics,
        operation=Operation.READ,
        partitions_of=lambda topic: [(each.partition_index, each) for each in topic.partitions],
        must_exist=True,
    )
    good = tuple(each.partition for each in asked if each.partition is not None and each.error_code is ErrorCode.none)
    request = DeleteOffsetsRequest(group_id=group_id, partitions=good)

    def refused(error: StreamlogError) -> None:
        call.respond(error_code=error.error_code)

    call.node.groups.of(group_id).request(
        lambda coordinator, ticket, now_ms: coordinator.delete_offsets(ticket, request),
        lambda reply: _respond(call, asked, reply),
        refused,
    )


def _respond(call: Call, asked: tuple[AskedPartition, ...], reply: DeleteOffsetsReply) -> None:
    if reply.error_code is not ErrorCode.none:
        call.respond(error_code=reply.error_code)
        return

    def error_of(each: AskedPartition) -> ErrorCode:
        if each.error_code is not ErrorCode.none or each.partition is None:
            return each.error_code
        return reply.errors[each.partition]

    call.respond(topics=answer_topics(asked, lambda each: {"error_code": error_of(each)}))
