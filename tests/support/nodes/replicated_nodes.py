"""Brokers of a cluster on a real file system, without sockets: a test carries their fetches, and is the controller.

brokers = ReplicatedNodes(tmp_path, 3)
brokers.create("t", leader=1, replicas=(1, 2, 3))
brokers[1].append(…); brokers.exchange()              every follower fetches until nothing is new
"""

from __future__ import annotations

from uuid import UUID

from support.builders.builders import a_batch
from support.files.queued_jobs import QueuedJobs
from support.nodes.replica_builders import T0, HandClock, RefusingFileSystem

from broker_core.broker.cluster.cluster_replicas import ClusterReplicas
from broker_core.broker.cluster.cluster_topics import ClusterTopics, InternalTopicPlan
from broker_core.broker.cluster.replica_directory import open_replica_directory
from broker_core.broker.coordination.coordinators import NodeCoordinators
from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.broker.timer_queue import TimerQueue
from broker_core.log.append_request import AppendRequest
from broker_core.log_directory.meta_properties import MetaProperties
from broker_core.log_directory.replica_folders import HeldDirectory
from broker_core.log_directory.system_ports import SYSTEM_LOCKS, SystemEntropy
from broker_core.metadata.metadata_image import MetadataImage
from broker_core.metadata.metadata_records import (
    ConfigRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from broker_core.model.topic_defaults import TopicDefaults
from broker_core.protocol.api_table import message_types
from broker_core.protocol.message_builder import build
from broker_core.replication.replication_values import (
    PartitionFetch,
    ReplicaFetchAnswer,
    ReplicationSettings,
)

INTERNAL_PLANS = {
    name: InternalTopicPlan(partition_count=4, factor=3) for name in ("__consumer_offsets", "__transaction_state")
}


class AskedController:
    """A ControllerPort that keeps what it is asked."""

    def __init__(self):
        self.asked = []

    def ask(self, message, on_answer, on_error):
        self.asked.append((message, on_answer, on_error))


class ReplicatedNode:
    """One start of a broker."""

    def __init__(self, node_id, path, image, clock, *, fs=None):
        self.node_id, self.image, self.clock = node_id, image, clock
        self.fs = fs or RefusingFileSystem()
        self.jobs, self.timers, self.controller = QueuedJobs(), TimerQueue(), AskedController()
        self.roles, self.followed, self.coordinators = [], [], None
        entropy, defaults = (
            SystemEntropy(),
            TopicDefaults(configs={}, is_always_synced=True),
        )  # as ClusterBrokerNode has them
        properties = MetaProperties(cluster_id="c", directory_id=UUID(int=node_id), node_id=node_id, is_ours=False)
        held = HeldDirectory(path=str(path), properties=properties, locks=SYSTEM_LOCKS)
        self.directory, folders = open_replica_directory(
            self.fs, held, lambda: self.image, entropy, max_open_count=100, topic_defaults=lambda: defaults
        )
        self.topics = ClusterTopics(
            image,
            self.directory.metadata_log,
            folders,
            self.jobs,
            entropy,
            topic_defaults=lambda: defaults,
            controller=self.controller,
            own_id=node_id,
            broker_epoch=lambda: self.broker_epoch,
            internal_plans=INTERNAL_PLANS,
            timers=self.timers,
            clock=clock,
        )
        self.replicas = ClusterReplicas(
            self.directory, self.topics, self.jobs, self.timers, clock, entropy, retention_check_interval_ms=300_000
        )
        self.replicas.join(
            folders,
            self.controller,
            ReplicationSettings(max_lag_ms=10_000, fetch_backoff_ms=100),
            self.timers,
            clock,
            own_id=node_id,
            broker_epoch=lambda: self.broker_epoch,
            on_role=self._on_role,
            on_follow=self.followed.append,
        )

    def _on_role(self, partition):
        self.roles.append(partition)
        if self.coordinators is not None:
            self.coordinators.on_role(partition)

    def coordinate(self, **settings):
        """From now on it has coordinators. As ClusterBrokerNode makes them, without peers."""
        given = {name.replace("_", "."): str(value) for name, value in settings.items()}
        config = parse_broker_config({"log.dirs": "/none", "listeners": "PLAINTEXT://127.0.0.1:1", **given})
        self.coordinators = NodeCoordinators(
            lambda: config, self.topics, self.replicas, self.jobs, self.timers, self.clock, SystemEntropy()
        )
        self.coordinators.start()

    @property
    def broker_epoch(self):
        return 10 * self.node_id

    def learn(self):
        """As ClusterBrokerNode does."""
        self.topics.image = self.image
        self.replicas.learn(self.image)
        self.topics.on_learned()
        self.settle()

    def settle(self):
        while len(self.jobs):
            self.jobs.run_one()

    def replica(self, partition=T0):
        """Led, followed, or neither."""
        return self.replicas._replicas[partition]

    def append(self, batch=None, *, acks=-1, partition=T0):
        """What became of it comes into the list: (first, last) offset, or the error."""
        answers = []
        request = AppendRequest(
            batches=bytearray(a_batch(1) if batch is None else batch),
            on_done=lambda result: answers.append((result.base_offset, result.last_offset)),
            on_error=answers.append,
            awaits_replication=acks == -1,
        )
        self.replica(partition).append(request)
        self.settle()
        return answers

    def stop(self):
        ended = []
        self.replicas.stop(lambda: ended.append(True))
        self.settle()
        assert ended
        self.directory.access.close()


class ReplicatedNodes:
    """By node id, from 1 on. All have the same image at once."""

    def __init__(self, path, count=3):
        self.path, self.clock, self.image = path, HandClock(), MetadataImage()
        self.nodes = {}
        self.topic_ids = {}
        for node_id in range(1, count + 1):
            (path / str(node_id)).mkdir(exist_ok=True)
            self.start(node_id)
        for node_id in self.nodes:
            self.register(node_id)

    def __getitem__(self, node_id):
        return self.nodes[node_id]

    def start(self, node_id, **more):
        node = self.nodes[node_id] = ReplicatedNode(node_id, self.path / str(node_id), self.image, self.clock, **more)
        return node

    def register(self, node_id):
        self.replay(
            RegisterBrokerRecord(
                broker_id=node_id, incarnation_id=UUID(int=99), broker_epoch=10 * node_id, rack=None, fenced=False
            )
        )

    def fence(self, node_id):
        self.replay(FenceBrokerRecord(id=node_id, epoch=10 * node_id))

    def replay(self, *records):
        for record in records:
            self.image.replay(record)
        for node in self.nodes.values():
            node.learn()

    def create(self, name="t", *, leader=1, replicas=(1, 2, 3), partition_count=1, leaders=None, **configs):
        """`leaders`: of each partition, where they differ."""
        leaders = leaders or (leader,) * partition_count
        topic_id = self.topic_ids[name] = UUID(int=1000 + len(self.topic_ids) + len(self.image._removed_topic_ids))
        self.replay(
            TopicRecord(name=name, topic_id=topic_id),
            *(
                ConfigRecord(resource_type=2, resource_name=name, name=setting.replace("_", "."), value=str(value))
                for setting, value in configs.items()
            ),
            *(
                PartitionRecord(
                    partition_id=number,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=replicas,
                    leader=led_by,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=tuple(UUID(int=each) for each in replicas),
                )
                for number, led_by in enumerate(leaders)
            ),
        )

    def remove(self, name="t"):
        self.replay(RemoveTopicRecord(topic_id=self.topic_ids.pop(name)))

    def change(self, name="t", number=0, **fields):
        """leader=, isr=, replicas=…"""
        self.replay(PartitionChangeRecord(partition_id=number, topic_id=self.topic_ids[name], **fields))

    def fetch(self, node_id):
        """One fetch of all replicas that follow, from each leader. Returns how many bytes came."""
        node, byte_count = self.nodes[node_id], 0
        for leader_id in node.replicas.leaders():
            for partition_id, position in node.replicas.positions_at(leader_id).items():
                answer = self._answer(node, leader_id, partition_id, position)
                byte_count += len(answer.records)
                node.replicas.on_answer(partition_id, position, answer)
            node.settle()
        return byte_count

    def _answer(self, node, leader_id, partition_id, position):
        leader = self.nodes[leader_id].replicas._held[partition_id]
        verdict = leader.on_fetch(
            PartitionFetch(
                fetch_offset=position.fetch_offset,
                current_leader_epoch=position.leader_epoch,
                last_fetched_epoch=position.last_fetched_epoch,
                replica_id=node.node_id,
                broker_epoch=node.broker_epoch,
                log_start_offset=position.log_start_offset,
            )
        )
        self.nodes[leader_id].settle()
        records = b""
        if verdict.until_offset > position.fetch_offset:
            fetched = leader.read_log(position.fetch_offset, max_bytes=1 << 20, until_offset=verdict.until_offset)
            records = bytes(fetched.buffer)
        return ReplicaFetchAnswer(
            error=verdict.error,
            diverging=verdict.diverging,
            high_watermark=verdict.high_watermark,
            log_start_offset=verdict.log_start_offset,
            records=records,
        )

    def exchange(self, *node_ids, rounds=3):
        """Followers fetch until nothing is new, and once more to acknowledge that and hear of the high watermark."""
        for _ in range(rounds):
            for node_id in node_ids or self.nodes:
                while self.fetch(node_id):
                    pass

    def log_bytes(self, node_id, name="t", number=0):
        folder = self.path / str(node_id) / f"{name}-{number}"
        return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def isr_answer(message, *, isr, partition_epoch, leader_epoch=0):
    """A controller's answer to an AlterPartition with one partition."""
    (topic,) = message.topics
    partition = {
        "partition_index": topic.partitions[0].partition_index,
        "leader_id": message.broker_id,
        "leader_epoch": leader_epoch,
        "isr": isr,
        "partition_epoch": partition_epoch,
    }
    values = {"topics": [{"topic_id": topic.topic_id, "partitions": [partition]}]}
    return build(message_types(56, 3).response, values)
