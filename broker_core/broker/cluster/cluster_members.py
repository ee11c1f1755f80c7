"""The cluster as its metadata log has it: leaders, live brokers, their addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker_core.broker.cluster_view import NO_LEADER, PartitionLeadership
from broker_core.coordinator.key_partition import key_partition
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import RegisterBrokerRecord
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.identifiers import TopicPartition


class ClusterMembers:
    """A ClusterView on the committed image."""

    def __init__(self, *, cluster_id: str, node_id: int, image_now: Callable[[], MetadataImage]) -> None:
        self.cluster_id = cluster_id
        self.node_id = node_id
        self._image_now = image_now

    @property
    def controller(self) -> int:
        """Any live broker: it sends on what the active controller has to do."""
        brokers = self.brokers
        return self.node_id if self.node_id in brokers or not brokers else brokers[0]

    @property
    def brokers(self) -> Sequence[int]:
        return sorted(number for number, broker in self._registered().items() if not broker.fenced)

    @property
    def fenced_brokers(self) -> Sequence[int]:
        return sorted(number for number, broker in self._registered().items() if broker.fenced)

    def leader_of(self, partition: TopicPartition) -> PartitionLeadership:
        image = self._image_now()
        topic = image.topics.get(partition.topic)
        state = None if topic is None else image.partition(topic.topic_id, partition.partition)
        if state is None:
            return PartitionLeadership(leader_id=NO_LEADER, leader_epoch=NO_LEADER, replica_ids=(), in_sync_ids=())
        live = self._registered()
        return PartitionLeadership(
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            replica_ids=state.replicas,
            in_sync_ids=state.isr,
            offline_ids=[each for each in state.replicas if each not in live or live[each].fenced],
        )

    def coordinator_of(self, internal_topic: str, key: str) -> int:
        topic = self._image_now().topics[internal_topic]
        partition = TopicPartition(internal_topic, key_partition(key, topic.partition_count))
        return self.leader_of(partition).leader_id

    def endpoint_of(self, broker_id: int, listener: str) -> BrokerAddress:
        broker = self._registered().get(broker_id)
        end_points = () if broker is None else broker.end_points
        named = [each for each in end_points if each.name == listener] or list(end_points)
        return BrokerAddress(host=named[0].host, port=named[0].port) if named else BrokerAddress(host="", port=0)

    def rack_of(self, broker_id: int) -> str | None:
        broker = self._registered().get(broker_id)
        return None if broker is None else broker.rack

    def _registered(self) -> dict[int, RegisterBrokerRecord]:
        return dict(self._image_now().registrations.brokers)
