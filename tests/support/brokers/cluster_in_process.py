"""Nodes of a cluster in this process, each on real sockets and a directory of its own, all on one loop in a thread."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

from support.brokers.reachable_broker import free_ports

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.client.cluster_client import open_remote
from broker_core.model.client_settings import parse_client_settings
from broker_core.server.cluster.cluster_server import ClusterServer
from broker_core.server.cluster.replica_limits import parse_replica_limits
from broker_core.server.quorum.quorum_server import QuorumServer
from broker_core.server.quorum.quorum_settings import parse_quorum_settings

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
_SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.heartbeat.interval.ms": "100",
    "broker.session.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
    "replica.fetch.backoff.ms": "50",
    "group.initial.rebalance.delay.ms": "0",
}


class ClusterInProcess:
    """`with ClusterInProcess(path) as cluster:` all nodes are ready. `settings`: further ones of the nodes; `listener`:
    of clients, with `client_settings` as they need them."""

    def __init__(self, path, count=3, *, settings=None, listener="PLAINTEXT", client_settings=None):
        self._path, self._count = path, count
        self._settings, self._listener = settings or {}, listener
        self._client_settings = client_settings or {}
        ports = free_ports(2 * count)
        self._ports = {number + 1: (ports[2 * number], ports[2 * number + 1]) for number in range(count)}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.servers: dict[int, ClusterServer] = {}
        self.ended: list[Exception] = []

    def __enter__(self):
        self.open()
        self._run(self._start_all(range(1, self._count + 1)))
        return self

    def open(self):
        """Without a node."""
        self._thread.start()

    def __exit__(self, *_):
        for node_id in list(self.servers):
            self.stop(node_id)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def bootstrap_servers(self):
        return ",".join(f"127.0.0.1:{port}" for port, _ in self._ports.values())

    def client(self, *, only=None, **given):
        """Of all nodes, or of one. `__` in a setting's name stands for a dot."""
        servers = self.bootstrap_servers if only is None else f"127.0.0.1:{self._ports[only][0]}"
        named = {name.replace("__", "."): value for name, value in given.items()}
        return open_remote(parse_client_settings({"bootstrap.servers": servers, **self._client_settings, **named}))

    @property
    def controllers(self):
        """Addresses of all controller listeners."""
        return [f"127.0.0.1:{port}" for _, port in self._ports.values()]

    def start(self, node_id):
        self._run(self._start_all([node_id]))

    def start_and_stop_alone(self, node_id):
        """A node that finds no majority, and is stopped while it waits."""

        async def run():
            self._new_server(node_id)
            starting = asyncio.ensure_future(self.servers[node_id].start())
            await asyncio.sleep(1)
            assert not starting.done()
            starting.cancel()
            await asyncio.wait([starting])
            await self.servers.pop(node_id).stop()

        self._run(run())

    def stop(self, node_id):
        self._run(self.servers.pop(node_id).stop())

    def kill(self, node_id):
        """Connections break, and nothing is flushed or said."""
        self._run(self.servers.pop(node_id).kill())

    def controller_id(self):
        """Of the active controller, as the nodes that are up know it."""
        ids = {server.source.node.voter.election.leader_id for server in self.servers.values()}
        return ids.pop() if len(ids) == 1 else -1

    def override(self, setting, value):
        """Of nodes that start from now on; returns the value before."""
        before, self._settings = self._settings.get(setting), {**self._settings, setting: value}
        return before

    def on_loop(self, question):
        """The answer of a function that reads state of the loop."""

        async def ask():
            return question()

        return self._run(ask())

    def settings(self, node_id):
        client_port, controller_port = self._ports[node_id]
        voters = ",".join(f"{number}@127.0.0.1:{ports[1]}" for number, ports in self._ports.items())
        return {
            **_SETTINGS,
            "node.id": str(node_id),
            "controller.quorum.voters": voters,
            "listeners": f"{self._listener}://127.0.0.1:{client_port},CONTROLLER://127.0.0.1:{controller_port}",
            "log.dirs": str(self._path / str(node_id)),
            **self._settings,
        }

    async def _start_all(self, node_ids):
        for node_id in node_ids:
            self._new_server(node_id)
        async with asyncio.timeout(60):
            await asyncio.gather(*(self.servers[node_id].start() for node_id in node_ids))

    def _new_server(self, node_id):
        given = self.settings(node_id)
        self.servers[node_id] = ClusterServer(
            parse_broker_config(given),
            partial(QuorumServer, parse_quorum_settings(given, is_broker=True), cluster_id=CLUSTER_ID),
            parse_replica_limits(given),
            on_end=self.ended.append,
        )

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(90)
