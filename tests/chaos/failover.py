"""How long no record is acknowledged when a node is killed: `python -m tests.chaos.failover --kills 10`.

A producer with acks=all sends a record every few milliseconds to three partitions; each of three nodes leads one. A
node is killed (kill -9), again and again: first others than the active controller's, then that. Each time the longest
gap between two acknowledgements of a partition is taken; then the node comes back, is in sync, and leads again.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from confluent_kafka import ElectionType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker_core.server.local.cluster_layout import open_layout
from broker_core.server.local.local_cluster import LocalCluster

TOPIC = "failover"
PARTITIONS = 3
PAUSE_SECONDS = 0.005
WATCH_SECONDS = 5.0
PATIENCE_SECONDS = 90


class Acks:
    """Sends, and keeps the times of the acknowledgements."""

    def __init__(self, bootstrap_servers):
        self.times, self.errors = [[] for _ in range(PARTITIONS)], []
        self._producer = Producer({
            "bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True, "linger.ms": 0,
            "retry.backoff.ms": 20, "retry.backoff.max.ms": 100, "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100, "topic.metadata.refresh.fast.interval.ms": 50, "log_level": 0,
        })  # fmt: skip
        self._is_over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._is_over:
            for number in range(PARTITIONS):
                self._producer.produce(TOPIC, b"x", partition=number, on_delivery=self._on_delivery)
            self._producer.poll(PAUSE_SECONDS)
        self._producer.flush(PATIENCE_SECONDS)

    def _on_delivery(self, error, message):
        if error is None:
            self.times[message.partition()].append(time.monotonic())
        else:
            self.errors.append(str(error))

    def longest_gap(self, since):
        """Of any partition, from its last one before `since` on."""
        return max(self._gap(list(times), since) for times in self.times)

    @staticmethod
    def _gap(times, since):
        after = [max((at for at in times if at <= since), default=since), *(at for at in times if at > since)]
        return max((late - early for early, late in itertools.pairwise(after)), default=float("inf"))

    def close(self):
        self._is_over = True
        self._thread.join()


def wait_for(condition, told=lambda: ""):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen: {told()}"
        time.sleep(0.05)


def settle(cluster, admin):
    """All are in sync, and each node leads the partition that it should."""
    ids = frozenset(node.node_id for node in cluster.nodes)
    for number in range(PARTITIONS):
        wait_for(
            lambda number=number: cluster.in_sync_replicas(TOPIC, number) == ids,
            lambda number=number: (cluster.partition(TOPIC, number), [node.is_running for node in cluster.nodes]),
        )
    admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, n) for n in range(PARTITIONS)]).result(30)
    for number in range(PARTITIONS):
        wait_for(lambda number=number: cluster.leader_of(TOPIC, number) == number + 1)
    time.sleep(1)


def gap_of_a_kill(cluster, admin, acks, *, at_controller):
    """Of any partition, in seconds."""
    settle(cluster, admin)
    controller_id = cluster.controller_id
    others = [node for node in cluster.nodes if node.node_id != controller_id]
    node = cluster.node(controller_id) if at_controller else random.choice(others)
    begun = time.monotonic()
    node.kill()
    time.sleep(WATCH_SECONDS)
    gap = acks.longest_gap(begun)
    cluster.start()
    return gap


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.failover")
    parser.add_argument("--kills", type=int, default=10, help="of each kind")
    parser.add_argument("--directory", type=Path, help="of the cluster; a temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="failover-") as folder:
        layout = open_layout(given.directory or Path(folder) / "cluster", node_count=3, is_port_random=True)
        with LocalCluster(layout) as cluster:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
            placed = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
            new = NewTopic(TOPIC, PARTITIONS, replica_assignment=placed, config={"min.insync.replicas": "2"})
            admin.create_topics([new])[TOPIC].result(PATIENCE_SECONDS)
            acks = Acks(cluster.bootstrap_servers)
            try:
                for name, at_controller in (("a broker", False), ("the active controller's node", True)):
                    gaps = sorted(
                        gap_of_a_kill(cluster, admin, acks, at_controller=at_controller) for _ in range(given.kills)
                    )
                    shown = ", ".join(f"{gap:.2f}" for gap in gaps)
                    print(
                        f"{name} killed: median {statistics.median(gaps):.2f} s, longest {gaps[-1]:.2f} s ({shown})",
                        flush=True,
                    )
            finally:
                acks.close()
            print(f"{sum(map(len, acks.times))} acknowledged, {len(acks.errors)} given up")


if __name__ == "__main__":
    main()
