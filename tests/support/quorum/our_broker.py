"""A broker of ours without a vote, as a process beside a real Kafka; it can be killed and started again."""

from __future__ import annotations

import time
from pathlib import Path

from support.brokers.reachable_broker import free_ports
from support.cluster.brokers_apart import start_without_cluster_id

from broker_core.server.local.cluster_layout import NodePlace
from broker_core.server.local.node_process import NodeProcess

START_SECONDS = 90


class OurBroker(NodeProcess):
    """A context manager that kills it in the end."""

    def __init__(self, folder: Path, *, controllers, node_id=98, settings=()):
        (port,) = free_ports(1)
        folder.mkdir(parents=True)
        super().__init__(
            NodePlace(node_id=node_id, folder=folder, port=port, controller_port=0),
            "unknown",
            start_process=start_without_cluster_id,
        )
        lines = [
            "process.roles=broker", f"node.id={node_id}", f"controller.quorum.bootstrap.servers={controllers}",
            "controller.listener.names=CONTROLLER", f"listeners=PLAINTEXT://127.0.0.1:{port}",
            "inter.broker.listener.name=PLAINTEXT", f"log.dirs={self.path}",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "group.initial.rebalance.delay.ms=0", "offsets.topic.replication.factor=2",
            "transaction.state.log.replication.factor=2", *settings,
        ]  # fmt: skip
        self.place.properties_path.write_text("\n".join(lines) + "\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    @property
    def address(self):
        return f"127.0.0.1:{self.place.port}"

    def log_of(self, topic, partition):
        """The bytes of the partition's log."""
        return log_of(self.path / f"{topic}-{partition}")

    @property
    def said(self):
        path = self.place.log_path
        return path.read_text(errors="replace") if path.exists() else ""

    def log_end(self):
        return "\n".join(self.said.splitlines()[-40:])


def log_of(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def wait_until(condition, *, seconds=START_SECONDS, story=lambda: ""):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, story()
        time.sleep(0.1)
