"""A cluster of ours on this machine with what tests do to it: faults, topics with replicas, a look at the files."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from confluent_kafka.admin import NewTopic
from support.clients.confluent_clients import read_all
from support.cluster.client_place import ClientPlace
from support.runs.warm_process import start_warm_node

from broker_core.server.local.cluster_layout import open_layout
from broker_core.server.local.local_cluster import LocalCluster

SECONDS = 60
FAULTS = ("killed", "paused", "stopped")


def wait_for(condition, seconds=SECONDS, told=lambda: ""):
    """What the condition returned, once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s {told()}"
        time.sleep(0.02)
    return found


class TestedCluster(ClientPlace, LocalCluster):
    """A local cluster, and a place for clients."""

    __test__ = False

    def __init__(self, folder: Path, *, node_count=3, settings=None):
        layout = open_layout(folder, node_count=node_count, settings=settings, is_port_random=True)
        super().__init__(layout, start_process=start_warm_node)
        self._names = itertools.count()

    @property
    def ids(self):
        return frozenset(node.node_id for node in self.nodes)

    def make_topic(self, name=None, *, partition_count=1, replicas=None, in_sync=None, **config):
        """A new topic on all nodes, or of one partition on these, once each replica, or those `in_sync`, are so."""
        name, factor = name or self.name(), min(3, len(self.nodes))
        settings = {key.replace("__", "."): str(value) for key, value in config.items()}
        placed = (
            {"replication_factor": factor, "num_partitions": partition_count}
            if replicas is None
            else {"num_partitions": 1, "replica_assignment": [list(replicas)]}
        )
        admin = self.admin()
        admin.create_topics([NewTopic(name, config=settings, **placed)])[name].result(SECONDS)
        self.wait_in_sync(name, in_sync or replicas, partition_count=partition_count)
        return name

    def wait_in_sync(self, topic, node_ids=None, *, partition_count=1):
        """Until the in-sync replicas of each partition are these, or all."""
        for number in range(partition_count):
            wanted = frozenset(node_ids or self.partition(topic, number).replicas)
            wait_for(
                lambda number=number, wanted=wanted: self.in_sync_replicas(topic, number) == wanted,
                told=lambda number=number: f"{topic}-{number}: {self.partition(topic, number)}",
            )

    # -- faults --

    def hit(self, node_id, fault):
        """The node is killed, paused or stopped in order."""
        node = self.node(node_id)
        {"killed": node.kill, "paused": node.pause, "stopped": node.stop}[fault]()
        assert node.is_paused if fault == "paused" else not node.is_running

    def heal(self):
        """All nodes run, and take part."""
        for node in self.nodes:
            node.resume()
        self.start()

    # -- files --

    def folder_of(self, node_id, topic, partition=0):
        return self.node(node_id).path / f"{topic}-{partition}"

    def stored_bytes(self, node_id, topic, partition=0):
        """Of each segment, by its name."""
        folder = self.folder_of(node_id, topic, partition)
        return {path.name: path.read_bytes() for path in sorted(folder.glob("*.log"))}

    def assert_once_and_in_order(self, topic, writer, *, partition_count=1):
        """What the writer knows as acknowledged is all there is, on every replica."""
        stored = read_all(self, topic)
        for number in range(partition_count):
            values = [message.value() for message in stored if message.partition() == number]
            assert values == writer.acknowledged[number]
            assert [int(value) for value in values] == sorted({int(value) for value in values})
        self.assert_replicas_are_equal(topic, partition_count=partition_count)

    def assert_replicas_are_equal(self, topic, *, partition_count=1):
        """Byte for byte, once nobody writes any more and all are in sync."""
        self.wait_in_sync(topic, partition_count=partition_count)
        for number in range(partition_count):
            first, *others = self.partition(topic, number).replicas

            def are_equal(first=first, others=others, number=number):
                wanted = self.stored_bytes(first, topic, number)
                return all(self.stored_bytes(each, topic, number) == wanted for each in others)

            wait_for(are_equal, told=lambda number=number: f"for {topic}-{number} to be equal everywhere")
            assert any(self.stored_bytes(first, topic, number).values()), f"{topic}-{number} is empty"
