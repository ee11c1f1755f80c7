"""Topics, their leaders and brokers as Metadata, DescribeTopicPartitions and others show them."""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.broker.cluster_view import NO_LEADER
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
    """A partition with its leader, or LEADER_NOT_AVAILABLE."""
    found = call.node.cluster.leader_of(TopicPartition(topic.name, number))
    return {
        "error_code": ErrorCode.leader_not_available if found.leader_id == NO_LEADER else ErrorCode.none,
        "partition_index": number,
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "replica_nodes": found.replica_ids,
        "isr_nodes": found.in_sync_ids,
        "offline_replicas": found.offline_ids,
    }


def place_of(call: Call, broker_id: int) -> dict[str, Any]:
    """Where the client, which came by one of the listeners, finds a broker."""
    endpoint = call.node.cluster.endpoint_of(broker_id, call.listener)
    return {"host": endpoint.host, "port": endpoint.port}
