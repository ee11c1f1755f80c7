"""The partitions that a request about committed offsets names: by topic name, or in newer versions by topic id.

asked_partitions(call, topics, …)     each with its place in the answer, and its error if there is one
answer_topics(asked, fields)          the answer's topics, in the order and with the keys of the request
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.identifiers import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPartition:
    """`topic_key` is what the request names the topic by; `partition` is None for an id that no topic has. `asked` is
    the request's entry: a structure, or only the number."""

    topic_key: str | UUID | None
    number: int
    partition: TopicPartition | None
    topic_id: UUID | None
    error_code: ErrorCode
    asked: Any


def asked_partitions(
    call: Call,
    topics: Iterable[Any],
    *,
    operation: Operation,
    partitions_of: Callable[[Any], Iterable[tuple[int, Any]]],
    must_exist: bool,
) -> tuple[AskedPartition, ...]:
    """`operation` is checked once for each topic. `must_exist`: a missing topic or partition is an error."""
    found: list[AskedPartition] = []
    image = call.node.topics.image
    for topic in topics:
        has_id = hasattr(topic, "topic_id")
        known = image.topic_by_id(topic.topic_id) if has_id and topic.topic_id else None
        name = known.name if known is not None else None if has_id else topic.name
        known = known or (None if name is None else image.topics.get(name))
        if name is None:
            error_code = ErrorCode.unknown_topic_id
        elif not call.is_allowed(operation, ResourceType.TOPIC, name):
            error_code = ErrorCode.topic_authorization_failed
        elif must_exist and known is None:
            error_code = ErrorCode.unknown_topic_or_partition
        else:
            error_code = ErrorCode.none
        for number, asked in partitions_of(topic):
            is_there = known is not None and 0 <= number < known.partition_count
            missing = must_exist and error_code is ErrorCode.none and not is_there
            found.append(
                AskedPartition(
                    topic_key=topic.topic_id if has_id else topic.name,
                    number=number,
                    partition=None if name is None else TopicPartition(name, number),
                    topic_id=None if known is None else known.topic_id,
                    error_code=ErrorCode.unknown_topic_or_partition if missing else error_code,
                    asked=asked,
                )
            )
    return tuple(found)


def answer_topics(
    asked: Iterable[AskedPartition], fields: Callable[[AskedPartition], dict[str, Any]]
) -> list[dict[str, Any]]:
    """`fields` returns a partition's answer without its number."""
    topics: dict[str | UUID | None, list[dict[str, Any]]] = {}
    for each in asked:
        topics.setdefault(each.topic_key, []).append({"partition_index": each.number, **fields(each)})
    return [
        {("name" if isinstance(key, str) else "topic_id"): key, "partitions": partitions}
        for key, partitions in topics.items()
    ]
