"""DescribeLogDirs (35), versions 1 to 5: the size of each partition in the node's log directory.

Runs in a job, because it opens every partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.broker.partition.replica_manager import DiskSpace
from broker_core.handlers.call import Call
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.identifiers import TopicPartition


def handle(call: Call) -> None:
    if not call.is_allowed(Operation.DESCRIBE, ResourceType.CLUSTER):
        call.respond(error_code=ErrorCode.cluster_authorization_failed)
        return
    replicas = call.node.replicas
    look = replicas.sizes(_asked_for(call))
    call.after_job(lambda: (look(), replicas.disk_space()), lambda found: _respond(call, *found))


def _respond(call: Call, sizes: Mapping[TopicPartition, int], space: DiskSpace) -> None:
    topics: dict[str, list[dict[str, Any]]] = {}
    for partition, size_bytes in sizes.items():
        topics.setdefault(partition.topic, []).append(
            {"partition_index": partition.partition, "partition_size": size_bytes}
        )
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


def _asked_for(call: Call) -> list[TopicPartition] | None:
    """None: all. As in Kafka, partitions that are not here are missing in the answer."""
    if call.message.topics is None:
        return None
    known = call.node.topics.image.topics
    named = {TopicPartition(topic.topic, number) for topic in call.message.topics for number in topic.partitions}
    return sorted(
        each for each in named if each.topic in known and 0 <= each.partition < known[each.topic].partition_count
    )
