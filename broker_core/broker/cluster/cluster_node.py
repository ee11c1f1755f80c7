"""A broker of a cluster: `BrokerNode` over the topics, replicas and members that the cluster's metadata log names.

node.start(…)            opens the directory; ready when it knows what it has, and before it is unfenced
node.learn(image)        each time when the committed image has changed
node.replicas            for the fetchers of the driver
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from broker_core.broker.broker_node import BrokerNode, NodePorts
from broker_core.broker.cluster.cluster_members import ClusterMembers
from broker_core.broker.cluster.cluster_replicas import ClusterReplicas
from broker_core.broker.cluster.cluster_topics import ClusterTopics, InternalTopicPlan
from broker_core.broker.cluster.cluster_transactions import ClusterTransactions
from broker_core.broker.cluster.replica_directory import open_replica_directory
from broker_core.broker.cluster_view import ClusterView
from broker_core.broker.controller_port import BrokerPort, ControllerPort
from broker_core.broker.coordination.transaction_peers import TransactionPeers
from broker_core.broker.node_directory import NodeDirectory
from broker_core.broker.settings.broker_config import BrokerConfig
from broker_core.broker.topic_store import TopicStore
from broker_core.log_directory.meta_properties import MetaProperties
from broker_core.log_directory.replica_folders import HeldDirectory, ReplicaFolders
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_defaults import TopicDefaults
from broker_core.replication.replication_values import ReplicationSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPorts:
    """`image_now` is the committed image; `broker_epoch` that of this broker's registration. `internal_plans`: of new
    internal topics, by name."""

    properties: MetaProperties
    controller: ControllerPort
    brokers: BrokerPort
    image_now: Callable[[], MetadataImage]
    broker_epoch: Callable[[], int]
    replication: ReplicationSettings
    on_follow: Callable[[int], None]
    internal_plans: Mapping[str, InternalTopicPlan]


class ClusterBrokerNode(BrokerNode):
    """See the module's docstring. The directory is held by another part of the process."""

    topics: ClusterTopics
    replicas: ClusterReplicas

    def __init__(self, config: BrokerConfig, ports: NodePorts, cluster: ClusterPorts) -> None:
        super().__init__(config, ports)
        self._ports = cluster
        self._folders: ReplicaFolders | None = None
        self._is_together = False
        self._given_defaults, self._synced_defaults = config.topic_defaults, _synced(config.topic_defaults)
        self._on_caught_up: Callable[[], None] | None = None
        self.controller = cluster.controller

    def start(self, on_ready: Callable[[], None], on_error: Callable[[Exception], None]) -> None:
        """Ready once this process's registration is in the image: until then it would tell clients of topics, leaders
        and brokers of the past, or of none."""

        def opened() -> None:
            self._on_caught_up = on_ready
            self.learn(self._ports.image_now())

        super().start(opened, on_error)

    def learn(self, image: MetadataImage) -> None:
        """The committed image has changed. Replicas first: what others learn from the image may ask them."""
        if self._is_together:
            self.topics.image = image  # a snapshot brings another one
            self.replicas.learn(image)
            self.topics.on_learned()
            if self.replicas.is_caught_up and self._on_caught_up is not None:
                caught_up, self._on_caught_up = self._on_caught_up, None
                caught_up()

    def _open(self) -> tuple[NodeDirectory, MetadataImage]:
        """Runs in a job."""
        held = HeldDirectory(path=self.config.log_dir, properties=self._ports.properties, locks=self._locks)
        directory, self._folders = open_replica_directory(
            self._file_system,
            held,
            self._ports.image_now,
            self.entropy,
            max_open_count=self._max_open_count,
            topic_defaults=self._topic_defaults,
        )
        return directory, self._ports.image_now()

    def _put_together(self, directory: NodeDirectory, image: MetadataImage) -> None:
        super()._put_together(directory, self._ports.image_now())
        assert self._folders is not None
        self.replicas.join(
            self._folders,
            self._ports.controller,
            self._ports.replication,
            self.timers,
            self.clock,
            own_id=self.config.node_id,
            broker_epoch=self._ports.broker_epoch,
            on_role=self._coordinators.on_role,
            on_follow=self._ports.on_follow,
        )
        self._is_together = True
        self.replicas.learn(self._ports.image_now())

    def _new_topics(self, directory: NodeDirectory, image: MetadataImage) -> TopicStore:
        ports = self._ports
        return ClusterTopics(
            image,
            directory.metadata_log,
            directory.folders,
            self.jobs,
            self.entropy,
            topic_defaults=self._topic_defaults,
            controller=ports.controller,
            own_id=self.config.node_id,
            broker_epoch=ports.broker_epoch,
            internal_plans=ports.internal_plans,
            timers=self.timers,
            clock=self.clock,
        )

    def _new_replicas(self, directory: NodeDirectory) -> ClusterReplicas:
        return self._assemble_replicas(directory, ClusterReplicas)

    def _topic_defaults(self) -> TopicDefaults:
        """The same object until they change."""
        given = self.config.topic_defaults
        if given is not self._given_defaults:
            self._given_defaults, self._synced_defaults = given, _synced(given)
        return self._synced_defaults

    def _new_view(self, directory: NodeDirectory) -> ClusterView:
        return ClusterMembers(
            cluster_id=self._ports.properties.cluster_id,
            node_id=self.config.node_id,
            image_now=self._ports.image_now,
        )

    def _new_peers(self) -> TransactionPeers:
        return ClusterTransactions(self._ports.brokers, self.cluster, self.timers, self.clock)

    def _pinned_offset(self, partition: TopicPartition) -> int | None:
        """Nothing that is not committed is deleted for its age, either."""
        pinned = super()._pinned_offset(partition)
        high_watermark = self.replicas.high_watermark_of(partition)
        known = [each for each in (pinned, high_watermark) if each is not None]
        return min(known, default=None)

    def _keep_min_insync_replicas(self) -> None:
        """The controller has stored it for all brokers."""


def _synced(defaults: TopicDefaults) -> TopicDefaults:
    """In sync means on the device: a broker that lost its page cache would be trusted with what it has lost."""
    return replace(defaults, is_always_synced=True)
