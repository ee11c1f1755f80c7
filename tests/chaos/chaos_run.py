"""One run: a new cluster, clients, faults; then everything heals, and the checker looks."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from broker_core.server.local.cluster_layout import open_layout
from broker_core.server.local.local_cluster import LocalCluster
from chaos.checker import anomalies, differing_replicas
from chaos.faults import Faults
from chaos.workload import EVENTS, PARTITIONS, TRANSACTIONS, Workload

_IN_SYNC_SECONDS = 90


class ChaosRun:
    """`anomalies` after `for_minutes`; what a client gave up with counts as one, too."""

    def __init__(self, path: Path, *, seed: int, node_count: int = 3, say: Callable[[str], None]) -> None:
        self.seed, self._say = seed, say
        self.cluster = LocalCluster(open_layout(path, node_count=node_count, is_port_random=True))
        self.faults = Faults(self.cluster, seed, say=say)
        self.workload = Workload(self.cluster.bootstrap_servers)
        self.anomalies: list[str] = []

    def for_minutes(self, minutes: float) -> None:
        with self.cluster as cluster:
            self.workload.create_topics()
            self.workload.start()
            end_s = time.monotonic() + 60 * minutes
            while time.monotonic() < end_s:
                time.sleep(1)
                self.faults.next()
            self.workload.stop()
            self._await_in_sync()
            events, transactions = self._read(EVENTS), self._read(TRANSACTIONS)
            cluster.stop()
            paths = [node.path for node in cluster.nodes]
            seen = self.workload.seen
            self.anomalies = [
                *(f"a client gave up: {error}" for error in seen.errors),
                *anomalies(seen, events, transactions),
                *differing_replicas(paths, [EVENTS, TRANSACTIONS], PARTITIONS),
            ]

    def figures(self) -> str:
        seen = self.workload.seen
        fates = [fate for _, fate in seen.transactions.values()]
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.counts().items()))
        ends = ", ".join(f"{fates.count(fate)} {fate}" for fate in ("committed", "aborted", "unknown"))
        return (
            f"seed {self.seed}: {len(self.faults.history)} faults ({kinds});"
            f" {sum(map(len, seen.acked.values()))} records acknowledged; transactions: {ends};"
            f" {sum(seen.kept.values())} commits of {len(seen.kept)} groups;"
            f" {len(seen.producers_lost)} producers lost; {sum(map(len, seen.polled.values()))} records polled:"
            f" {len(self.anomalies)} anomalies"
        )

    def _await_in_sync(self) -> None:
        deadline = time.monotonic() + _IN_SYNC_SECONDS
        everybody = frozenset(node.node_id for node in self.cluster.nodes)
        for topic in (EVENTS, TRANSACTIONS):
            for number in range(PARTITIONS):
                while self.cluster.in_sync_replicas(topic, number) != everybody:
                    assert time.monotonic() < deadline, f"{topic}-{number} is not in sync on every node"
                    time.sleep(0.2)

    def _read(self, topic: str) -> dict[int, list[tuple[int, str]]]:
        """Everything that a read-committed reader sees."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "group.id": "checker",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        log: dict[int, list[tuple[int, str]]] = {number: [] for number in range(PARTITIONS)}
        left, deadline = set(range(PARTITIONS)), time.monotonic() + 60
        while left:
            assert time.monotonic() < deadline, f"{topic}: the end of {left} is not reached"
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error():
                left.discard(message.partition())
            else:
                log[message.partition()].append((message.offset(), message.value().decode()))
        consumer.close()
        return log
