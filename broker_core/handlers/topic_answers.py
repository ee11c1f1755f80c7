"""Topics as Metadata and DescribeTopicPartitions show them: one node leads, holds and is in sync with everything."""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.cluster import TopicDescription
from broker_core.handlers.call import Call
from broker_core.model.access_control import ResourceType, operations_bit_field
from broker_core.model.exceptions import InvalidTopicNameError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_name import validate_topic_name

NOT_ASKED_FOR: Final = -(2**31)
"""The value of an operations bit field that was not requested."""


def topic_answer(call: Call, topic: TopicDescription, *, with_operations: bool) -> dict[str, Any]:
    """A topic's answer without its partitions."""
    operations = NOT_ASKED_FOR
    if with_operations:
        operations = operations_bit_field(call.allowed_operations(ResourceType.TOPIC, topic.name))
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "topic_authorized_operations": operations,
    }


def absence_of(name: str) -> ErrorCode:
    """The error for a missing topic: it tells whether the name is valid."""
    try:
        validate_topic_name(name)
    except InvalidTopicNameError as error:
        return error.error_code
    return ErrorCode.unknown_topic_or_partition


def partition_answer(call: Call, topic: TopicDescription, number: int) -> dict[str, Any]:
    """A partition with its leader; one whose disk has failed has none."""
    node_id = call.node.node_id
    is_offline = call.node.replicas.is_offline(TopicPartition(topic.name, number))
    return {
        "error_code": ErrorCode.leader_not_available if is_offline else ErrorCode.none,
        "partition_index": number,
        "leader_id": -1 if is_offline else node_id,
        "leader_epoch": call.node.leader_epoch,
        "replica_nodes": (node_id,),
        "isr_nodes": (node_id,),
        "offline_replicas": (node_id,) if is_offline else (),
    }
