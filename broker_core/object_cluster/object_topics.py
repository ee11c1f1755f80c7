"""Topics of an object log: validated by the same controller as in other logs, then committed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final
from uuid import UUID

from broker_core.cluster import TopicDescription
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.log_directory.internal_topics import require_no_internal_topic
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.controller import MetadataController
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
)
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_cluster.shared_log import Proposal, SharedLog
from broker_core.object_log.commit import Change, DeleteTopic, PutTopic
from broker_core.object_log.log_image import LogImage

_NO_DIRECTORY: Final = UUID(int=0)

TopicPlan = Callable[[MetadataController], CoordinatorResult[MetadataRecord, TopicDescription]]


class ObjectTopics:
    """`num_partitions`: the partition count of a new topic if the request has none."""

    def __init__(self, ports: LogPorts, log: SharedLog, *, num_partitions: int) -> None:
        self._ports = ports
        self._log = log
        self._num_partitions = num_partitions

    def describe(self, names: Collection[str] | None) -> dict[str, TopicDescription]:
        topics = self._log.read(lambda image: image.topics)
        return dict(topics) if names is None else {name: topics[name] for name in names if name in topics}

    def create(self, name: str, *, partition_count: int | None, configs: Mapping[str, str] | None) -> TopicDescription:
        require_no_internal_topic(name, "create")
        count = self._num_partitions if partition_count is None else partition_count
        return self._change(
            lambda controller: controller.plan_create_topic(
                name, partition_count=count, configs=configs or {}, entropy=self._ports.entropy
            ),
            _put,
        )

    def delete(self, name: str) -> None:
        self._change(
            lambda controller: controller.plan_delete_topic(name), lambda topic: DeleteTopic(topic_id=topic.topic_id)
        )

    def widen(self, name: str, total_count: int) -> TopicDescription:
        require_no_internal_topic(name, "widen")
        return self._change(lambda controller: controller.plan_create_partitions(name, total_count), _put)

    def alter(self, name: str, changes: Mapping[str, str | None]) -> TopicDescription:
        return self._change(lambda controller: controller.plan_alter_topic_configs(name, changes), _put)

    def _change(self, plan: TopicPlan, to_change: Callable[[TopicDescription], Change]) -> TopicDescription:
        replies: list[TopicDescription] = []

        def propose(image: LogImage) -> Proposal:
            reply = plan(_controller(image)).reply
            replies.append(reply)
            return Proposal(changes=(to_change(reply),))

        self._log.commit(propose)
        return replies[-1]


def _put(topic: TopicDescription) -> Change:
    return PutTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_count=topic.partition_count,
        configs=dict(topic.configs),
    )


def _controller(image: LogImage) -> MetadataController:
    """A controller with the log's topics, as if it had replayed them from a metadata log."""
    metadata = MetadataImage()
    for topic in image.topics.values():
        metadata.replay(TopicRecord(name=topic.name, topic_id=topic.topic_id))
        metadata.replay(
            PartitionRecord(
                partition_id=topic.partition_count - 1,
                topic_id=topic.topic_id,
                replicas=(0,),
                isr=(0,),
                leader=0,
                directories=(_NO_DIRECTORY,),
            )
        )
        for name, value in topic.configs.items():
            metadata.replay(
                ConfigRecord(resource_type=ConfigResource.TOPIC, resource_name=topic.name, name=name, value=value)
            )
    return MetadataController(metadata, broker_id=0, directory_id=_NO_DIRECTORY)
