"""Settings of a node of a cluster on this machine: the nodes find each other at once, and a dead one is missed soon.

Kafka's defaults are for machines in a network: nine seconds until a broker is given up, a second before an election.
Here the only delays are those of a busy machine. `replica.lag.time.max.ms` says how long a follower may be slow, so it
is not for the death of a broker, and stays long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ADDRESS: Final = "127.0.0.1"
_MAX_FACTOR: Final = 3


def local_settings(node_id: int, controller_ports: Mapping[int, int], *, port: int, path: str) -> dict[str, str]:
    """`controller_ports`: of all nodes, by id. `port` is for clients, `path` the log directory."""
    factor = min(_MAX_FACTOR, len(controller_ports))
    min_in_sync = str(min(2, factor - 1) or 1)
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(f"{each}@{ADDRESS}:{own}" for each, own in controller_ports.items()),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{ADDRESS}:{port},CONTROLLER://{ADDRESS}:{controller_ports[node_id]}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": path,
        "default.replication.factor": str(factor),
        "min.insync.replicas": min_in_sync,
        "offsets.topic.replication.factor": str(factor),
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": min_in_sync,
        "group.initial.rebalance.delay.ms": "0",
        "broker.heartbeat.interval.ms": "300",
        "broker.session.timeout.ms": "1500",
        "controller.quorum.election.timeout.ms": "200",
        "controller.quorum.election.backoff.max.ms": "200",
        "controller.quorum.fetch.timeout.ms": "1500",
        "replica.fetch.backoff.ms": "100",
        "replica.fetch.wait.max.ms": "500",
        "replica.lag.time.max.ms": "10000",
    }
