"""DescribeTopicPartitions (75), version 0: topics in pages of at most max.request.partition.size.limit partitions
(KIP-966).

A cursor marks the start of the next page; topics are ordered by name. A request without topics returns all topics.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.cluster import TopicDescription
from broker_core.handlers.call import Call
from broker_core.handlers.topic_answers import absence_of, partition_answer, topic_answer
from broker_core.model.access_control import Operation, ResourceType, operations_bit_field
from broker_core.model.topic_name import is_internal_topic


def handle(call: Call) -> None:
    cursor = call.message.cursor
    if cursor is not None and not _is_place(cursor, call.message.topics):
        call.respond(topics=[_refused(topic.name, ErrorCode.invalid_request) for topic in call.message.topics])
        return
    image = call.node.topics.image
    is_for_all = not call.message.topics
    names = sorted(image.topics if is_for_all else {topic.name for topic in call.message.topics})
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    left = max(1, min(call.node.config.max_request_partition_size_limit, call.message.response_partition_limit))
    answers: list[dict[str, Any]] = []
    next_cursor: dict[str, Any] | None = None
    for name in names:
        if left == 0:
            next_cursor = {"topic_name": name, "partition_index": 0}
            break
        if not call.is_allowed(Operation.DESCRIBE, ResourceType.TOPIC, name):
            if not is_for_all:
                answers.append(_refused(name, ErrorCode.topic_authorization_failed))
            continue
        topic = image.topics.get(name)
        if topic is None:
            operations = operations_bit_field(call.allowed_operations(ResourceType.TOPIC, name))
            answers.append(_refused(name, absence_of(name)) | {"topic_authorized_operations": operations})
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        until = min(topic.partition_count, first + left)
        answers.append(_page(call, topic, range(first, until)))
        left -= max(0, until - first)
        if until < topic.partition_count:
            next_cursor = {"topic_name": name, "partition_index": until}
            break
    call.respond(topics=answers, next_cursor=next_cursor)


def _is_place(cursor: Any, topics: Any) -> bool:
    """If the request names topics, the cursor has to be at one of them."""
    is_named = not topics or cursor.topic_name in {topic.name for topic in topics}
    return is_named and cursor.partition_index >= 0


def _refused(name: str, error_code: ErrorCode) -> dict[str, Any]:
    return {"name": name, "error_code": error_code, "is_internal": is_internal_topic(name)}


def _page(call: Call, topic: TopicDescription, numbers: range) -> dict[str, Any]:
    answer = topic_answer(call, topic, with_operations=True)
    no_elr: dict[str, Any] = {"eligible_leader_replicas": (), "last_known_elr": ()}
    answer["partitions"] = [partition_answer(call, topic, number) | no_elr for number in numbers]
    return answer
