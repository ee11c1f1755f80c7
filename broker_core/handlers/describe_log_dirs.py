"""DescribeLogDirs (35), versions 1 to 5: how many bytes each partition takes in the node's one directory."""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.broker.replica import Replica
from broker_core.handlers.call import Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition

_FIRST_VERSION_WITH_ERROR: Final = 3


def handle(call: Call) -> None:
    if not call.is_allowed(Operation.DESCRIBE, ResourceType.CLUSTER):
        call.respond(error_code=ErrorCode.cluster_authorization_failed)
        return
    topics: dict[str, list[dict[str, Any]]] = {}
    for replica in _asked_for(call):
        try:
            size_bytes = sum(segment.size_bytes for segment in replica.segments())
        except StreamlogError:
            continue
        partition = replica.topic_partition
        topics.setdefault(partition.topic, []).append(
            {"partition_index": partition.partition, "partition_size": size_bytes}
        )
    space = call.node.replicas.disk_space()
    call.respond(
        results=[
            {
                "log_dir": call.node.directory_path,
                "topics": [{"name": name, "partitions": partitions} for name, partitions in sorted(topics.items())],
                "total_bytes": space.total_bytes,
                "usable_bytes": space.usable_bytes,
            }
        ]
    )


def _asked_for(call: Call) -> list[Replica]:
    if call.message.topics is None:
        return list(call.node.replicas.all())
    found: dict[TopicPartition, Replica] = {}
    for topic in call.message.topics:
        for number in topic.partitions:
            partition = TopicPartition(topic.topic, number)
            try:
                found[partition] = call.node.replicas.get(partition)
            except StreamlogError:
                continue  # as in Kafka, what is not here is not in the answer
    return list(found.values())
