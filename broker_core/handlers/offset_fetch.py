"""OffsetFetch (9), versions 1 to 10: committed offsets; from 8 on of several groups, from 10 on by topic id.

Null topics, from version 2 on: all partitions with an offset, without topics that the client may not describe and, by
id, without deleted topics. From version 7 on a client may require stable offsets, which no open transaction can change
(KIP-447). In version 1 a group error is repeated at each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.group.offsets.offset_messages import FetchedOffset, FetchReply, FetchRequest
from broker_core.handlers.call import Call
from broker_core.handlers.committed_partitions import AskedPartition, answer_topics, asked_partitions
from broker_core.handlers.gathered_answers import GatheredAnswers
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError

_FIRST_VERSION_WITH_GROUP_ERROR: Final = 2
_FIRST_VERSION_WITH_SEVERAL_GROUPS: Final = 8
_FIRST_VERSION_WITH_IDS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _AskedGroup:
    """`asked` None: all partitions. `error_code` of the group as a whole."""

    request: FetchRequest
    asked: tuple[AskedPartition, ...] | None
    error_code: ErrorCode


def handle(call: Call) -> None:
    has_several = call.version >= _FIRST_VERSION_WITH_SEVERAL_GROUPS
    groups = [_asked_group(call, group) for group in (call.message.groups if has_several else [call.message])]

    gathered = GatheredAnswers(range(len(groups)), lambda answers: _respond(call, list(answers.values())))
    for slot, group in enumerate(groups):
        _fetch(call, group, partial(gathered.add, slot))


def _fetch(call: Call, group: _AskedGroup, answer: Callable[[dict[str, Any]], None]) -> None:
    def fetched(reply: FetchReply) -> None:
        answer(_answer(call, group, reply))

    def refused(error: StreamlogError) -> None:
        fetched(FetchReply(error_code=error.error_code))

    if group.error_code is ErrorCode.none:
        service = call.node.groups.of(group.request.group_id)
        service.look(lambda coordinator: coordinator.fetch_offsets(group.request), fetched, refused)
    else:
        fetched(FetchReply(error_code=group.error_code))


def _asked_group(call: Call, group: Any) -> _AskedGroup:
    is_allowed = call.is_allowed(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
    asked = None
    if group.topics is not None:
        asked = asked_partitions(
            call,
            group.topics,
            operation=Operation.DESCRIBE,
            partitions_of=lambda topic: [(number, number) for number in topic.partition_indexes],
            must_exist=False,
        )
    return _AskedGroup(
        request=FetchRequest(
            group_id=group.group_id,
            partitions=None if asked is None else tuple(each.partition for each in asked if each.partition is not None),
            require_stable=call.request_field("require_stable", False),
            member_id=getattr(group, "member_id", None),
            member_epoch=getattr(group, "member_epoch", -1),
        ),
        asked=asked,
        error_code=ErrorCode.none if is_allowed else ErrorCode.group_authorization_failed,
    )


def _respond(call: Call, answers: Sequence[dict[str, Any]]) -> None:
    if call.version >= _FIRST_VERSION_WITH_SEVERAL_GROUPS:
        call.respond(groups=answers)
    else:
        call.respond(topics=answers[0]["topics"], error_code=answers[0]["error_code"])


def _answer(call: Call, group: _AskedGroup, reply: FetchReply) -> dict[str, Any]:
    asked = group.asked if group.asked is not None else _all_of(call, reply)

    def fields(each: AskedPartition) -> dict[str, Any]:
        if reply.error_code is not ErrorCode.none:
            return _offset(FetchedOffset(error_code=reply.error_code))
        if each.error_code is not ErrorCode.none or each.partition is None:
            return _offset(FetchedOffset(error_code=each.error_code))
        return _offset(reply.offsets[each.partition])

    has_group_error = reply.error_code is not ErrorCode.none and call.version >= _FIRST_VERSION_WITH_GROUP_ERROR
    return {
        "group_id": group.request.group_id,
        "topics": [] if has_group_error else answer_topics(asked, fields),
        "error_code": reply.error_code,
    }


def _all_of(call: Call, reply: FetchReply) -> tuple[AskedPartition, ...]:
    found, image = [], call.node.topics.image
    names = {partition.topic for partition in reply.offsets}
    visible = {name for name in names if call.is_allowed(Operation.DESCRIBE, ResourceType.TOPIC, name)}
    for partition in reply.offsets:
        known = image.topics.get(partition.topic)
        if partition.topic not in visible or (call.version >= _FIRST_VERSION_WITH_IDS and known is None):
            continue
        topic_id = None if known is None else known.topic_id
        found.append(
            AskedPartition(
                topic_key=topic_id if call.version >= _FIRST_VERSION_WITH_IDS else partition.topic,
                number=partition.partition,
                partition=partition,
                topic_id=topic_id,
                error_code=ErrorCode.none,
                asked=partition.partition,
            )
        )
    return tuple(found)


def _offset(fetched: FetchedOffset) -> dict[str, Any]:
    return {
        "committed_offset": fetched.committed.offset,
        "committed_leader_epoch": fetched.committed.leader_epoch,
        "metadata": fetched.committed.metadata,
        "error_code": fetched.error_code,
    }
