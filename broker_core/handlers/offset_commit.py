"""OffsetCommit (8), versions 2 to 10: a group's offsets are stored, each partition by itself; from 10 on by topic id.

Topics and partitions must exist. Left out on purpose: the retention time of versions 2 to 4; offsets expire after the
broker's offsets.retention.minutes, as for every newer client.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.cluster import GroupOffset
from broker_core.group.offsets.offset_messages import CommitReply, CommitRequest
from broker_core.handlers.call import Call
from broker_core.handlers.committed_partitions import AskedPartition, answer_topics, asked_partitions
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError

_FIRST_VERSION_WITH_MISSING_GROUPS: Final = 9


def handle(call: Call) -> None:
    is_allowed = call.is_allowed(Operation.READ, ResourceType.GROUP, call.message.group_id)
    asked = asked_partitions(
        call,
        call.message.topics,
        operation=Operation.READ,
        partitions_of=lambda topic: [(each.partition_index, each) for each in topic.partitions],
        must_exist=True,
    )
    if not is_allowed:
        _respond_alike(call, asked, ErrorCode.group_authorization_failed)
        return
    request = _request_of(call, asked)
    if not request.offsets:
        _respond(call, asked, CommitReply(errors={}))
        return

    def refused(error: StreamlogError) -> None:
        _respond(call, asked, CommitReply(errors=dict.fromkeys(request.offsets, error.error_code)))

    call.node.groups.of(request.group_id).request(
        lambda coordinator, ticket, now_ms: coordinator.on_commit_offsets(ticket, request, now_ms),
        lambda reply: _respond(call, asked, reply),
        refused,
    )


def _request_of(call: Call, asked: tuple[AskedPartition, ...]) -> CommitRequest:
    message = call.message
    good = [(each, each.partition) for each in asked if each.error_code is ErrorCode.none]
    return CommitRequest(
        group_id=message.group_id,
        generation_id=message.generation_id_or_member_epoch,
        member_id=message.member_id,
        group_instance_id=call.request_field("group_instance_id", None),
        offsets={
            partition: GroupOffset(
                offset=each.asked.committed_offset,
                metadata=each.asked.committed_metadata or "",
                leader_epoch=getattr(each.asked, "committed_leader_epoch", -1),
            )
            for each, partition in good
            if partition is not None
        },
        topic_ids={
            partition.topic: each.topic_id
            for each, partition in good
            if partition is not None and each.topic_id is not None
        },
        knows_missing_groups=call.version >= _FIRST_VERSION_WITH_MISSING_GROUPS,
    )


def _respond(call: Call, asked: tuple[AskedPartition, ...], reply: CommitReply) -> None:
    def error_of(each: AskedPartition) -> ErrorCode:
        if each.error_code is not ErrorCode.none or each.partition is None:
            return each.error_code
        return reply.errors[each.partition]

    call.respond(topics=answer_topics(asked, lambda each: {"error_code": error_of(each)}))


def _respond_alike(call: Call, asked: tuple[AskedPartition, ...], error_code: ErrorCode) -> None:
    call.respond(topics=answer_topics(asked, lambda each: {"error_code": error_code}))
