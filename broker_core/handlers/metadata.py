"""Metadata (3), versions 0 to 13: brokers, and topics with the leaders of their partitions.

Topics are given by name, from version 10 on by id, or all (null; in version 0 an empty list). A topic that may not be
described gets the same answer whether it exists or not. Unknown topics are created if the client and
auto.create.topics.enable allow it: the answer is still UNKNOWN_TOPIC_OR_PARTITION, and the client retries. The
addresses are those of the request's listener.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.cluster import TopicDescription
from broker_core.handlers.call import Call
from broker_core.handlers.topic_answers import NOT_ASKED_FOR, absence_of, partition_answer, place_of, topic_answer
from broker_core.model.access_control import Operation, ResourceType, operations_bit_field
from broker_core.model.exceptions import StreamlogError
from broker_core.model.topic_name import is_internal_topic

_FIRST_VERSION_WHERE_NULL_IS_ALL: Final = 1
_FIRST_VERSION_WITH_IDS: Final = 12
_FIRST_VERSION_WITH_AUTO_CREATION_AS_A_CHOICE: Final = 4


def handle(call: Call) -> None:
    asked = call.message.topics
    if asked is None or (call.version < _FIRST_VERSION_WHERE_NULL_IS_ALL and not asked):
        topics = [_described(call, topic) for _, topic in sorted(call.node.topics.image.topics.items())]
        topics = [answer for answer in topics if answer["error_code"] is not ErrorCode.topic_authorization_failed]
    else:
        ids = dict.fromkeys(topic.topic_id for topic in asked if getattr(topic, "topic_id", None) is not None)
        names = dict.fromkeys(topic.name for topic in asked)
        if call.version < _FIRST_VERSION_WITH_IDS and (ids or None in names):
            # Versions 10 and 11 have the field, and Kafka had a fault in them.
            _refuse_all(call, ErrorCode.invalid_request)
            return
        if ids:
            topics = [_with_id(call, topic_id) for topic_id in ids]  # names beside ids are ignored
        elif None in names:
            _refuse_all(call, ErrorCode.unknown_server_error)
            return
        else:
            topics = [_named(call, name) for name in names]
    operations = NOT_ASKED_FOR
    if call.request_field("include_cluster_authorized_operations", False):
        operations = 0
        if call.is_allowed(Operation.DESCRIBE, ResourceType.CLUSTER):
            operations = operations_bit_field(call.allowed_operations(ResourceType.CLUSTER))
    call.respond(
        brokers=[
            {"node_id": each, "rack": call.node.cluster.rack_of(each)} | place_of(call, each)
            for each in call.node.cluster.brokers
        ],
        cluster_id=call.node.cluster.cluster_id,
        controller_id=call.node.cluster.controller,
        topics=topics,
        cluster_authorized_operations=operations,
    )


def _refuse_all(call: Call, error_code: ErrorCode) -> None:
    """As in Kafka, without an error message."""
    topics = [
        {"name": topic.name or "", "topic_id": topic.topic_id, "error_code": error_code}
        for topic in call.message.topics
    ]
    call.respond(topics=topics, controller_id=-1, error_code=error_code, cluster_authorized_operations=NOT_ASKED_FOR)


def _with_id(call: Call, topic_id: UUID) -> dict[str, Any]:
    topic = call.node.topics.image.topic_by_id(topic_id)
    if topic is None:
        return {"name": None, "topic_id": topic_id, "error_code": ErrorCode.unknown_topic_id}
    answer = _described(call, topic)
    if answer["error_code"] is ErrorCode.topic_authorization_failed:
        answer |= {"name": None, "topic_id": topic_id}
    return answer


def _named(call: Call, name: str) -> dict[str, Any]:
    topic = call.node.topics.image.topics.get(name)
    return _unknown(call, name) if topic is None else _described(call, topic)


def _described(call: Call, topic: TopicDescription) -> dict[str, Any]:
    if not call.is_allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
        error_code = ErrorCode.topic_authorization_failed
        return {"name": topic.name, "is_internal": topic.is_internal, "error_code": error_code}
    with_operations = call.request_field("include_topic_authorized_operations", False)
    answer = topic_answer(call, topic, with_operations=with_operations)
    answer["partitions"] = [partition_answer(call, topic, number) for number in range(topic.partition_count)]
    return answer


def _unknown(call: Call, name: str) -> dict[str, Any]:
    """The answer for a missing topic; starts to create it if that is requested and allowed."""
    error_code = absence_of(name)
    if not call.is_allowed(Operation.DESCRIBE, ResourceType.TOPIC, name):
        error_code = ErrorCode.topic_authorization_failed
    elif _is_to_be_made(call):
        if _may_create(call, name):
            _begin_to_make(call, name)
        else:
            error_code = ErrorCode.topic_authorization_failed
    return {"name": name, "is_internal": is_internal_topic(name), "error_code": error_code}


def _is_to_be_made(call: Call) -> bool:
    is_wanted = call.version < _FIRST_VERSION_WITH_AUTO_CREATION_AS_A_CHOICE or call.message.allow_auto_topic_creation
    return bool(is_wanted and call.node.config.auto_create_topics_enable)


def _may_create(call: Call, name: str) -> bool:
    return call.is_allowed(Operation.CREATE, ResourceType.CLUSTER) or call.is_allowed(
        Operation.CREATE, ResourceType.TOPIC, name
    )


def _begin_to_make(call: Call, name: str) -> None:
    try:
        call.node.topics.check_create_topic(name, partition_count=call.node.config.num_partitions, configs={})
    except StreamlogError:
        return  # the name collides with another topic: it stays unknown, as in Kafka
    call.may_change_partitions(call.node.config.num_partitions)  # which it may: the client is throttled afterwards
    call.node.make_topic_automatically(name)
