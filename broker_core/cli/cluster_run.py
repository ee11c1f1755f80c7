"""Looks after the nodes of a cluster on this machine, in the foreground: starts them, says what happens, stops them."""

from __future__ import annotations

import select
import time
from typing import Final

import typer

from broker_core.cli.printable import printable
from broker_core.cli.stop_signals import StopSignals
from broker_core.model.exceptions import BrokerUnavailableError
from broker_core.server.local.local_cluster import LocalCluster
from broker_core.server.local.node_process import NodeProcess

_START_LOOK_SECONDS: Final = 0.01
_LOOK_SECONDS: Final = 0.1
_RESTART_SECONDS: Final = 2.0
"""A node that ended sooner after its start is not started again before so long has passed."""


class ClusterRun:
    def __init__(self, cluster: LocalCluster, *, restarts: bool) -> None:
        self._cluster = cluster
        self._restarts = restarts
        self._started_at_s: dict[int, float] = {}
        self._starting: list[NodeProcess] = []
        self._ended: list[NodeProcess] = []
        self._elsewhere: list[NodeProcess] = []
        """Of those that ended: the ones that another process runs again."""

    def until_stopped(self) -> bool:
        """Returns after a signal and the orderly stop of all nodes; False if they all had ended before. Raises
        BrokerUnavailableError if one does not start."""
        with StopSignals() as stop:
            try:
                if not self._start(stop):
                    return True
                while stop.received is None and self._look():
                    select.select([stop.descriptor], [], [], _LOOK_SECONDS)
                return stop.received is not None
            finally:
                self._stop()

    def _start(self, stop: StopSignals) -> bool:
        """False: a signal came first."""
        for node in self._cluster.nodes:
            self._spawn(node)
        while not all(node.is_ready for node in self._cluster.nodes):
            select.select([stop.descriptor], [], [], _START_LOOK_SECONDS)
            if stop.received is not None:
                return False
            for node in self._cluster.nodes:
                if not node.is_running:
                    raise BrokerUnavailableError(f"node {node.node_id} {node.how_it_ended()}")
        self._starting.clear()
        self._say_how_to_use_it()
        return True

    def _look(self) -> bool:
        """Says what changed, and starts nodes again that should be; False when none runs any more."""
        for node in self._starting[:]:
            if node.is_ready:
                self._starting.remove(node)
                _say(f"node {node.node_id} is ready again")
        for node in self._cluster.nodes:
            if not node.is_running and node not in self._ended:
                node.wait_until_stopped()  # forgets its process
                self._ended.append(node)
                self._say_it_ended(node)
        self._look_elsewhere()
        if not self._restarts:
            return len(self._ended) < len(self._cluster.nodes) or bool(self._elsewhere)
        for node in self._ended[:]:
            if node not in self._elsewhere and time.monotonic() >= self._started_at_s[node.node_id] + _RESTART_SECONDS:
                self._ended.remove(node)
                self._spawn(node)
                _say(f"node {node.node_id} is started again: process {node.pid}")
        return True

    def _look_elsewhere(self) -> None:
        for node in self._ended:
            if node.runs_elsewhere and node not in self._elsewhere:
                self._elsewhere.append(node)
                _say(f"node {node.node_id} runs again, started elsewhere: Ctrl-C here will not stop it")
            elif node in self._elsewhere and not node.runs_elsewhere:
                self._elsewhere.remove(node)
                _say(f"node {node.node_id} ended elsewhere")

    def _spawn(self, node: NodeProcess) -> None:
        node.spawn()
        self._started_at_s[node.node_id] = time.monotonic()
        if node not in self._starting:
            self._starting.append(node)

    def _stop(self) -> None:
        """A second signal raises KeyboardInterrupt in here: then the nodes are killed."""
        try:
            self._cluster.stop()
            self._look_elsewhere()
            for node in self._elsewhere:
                _say(f"node {node.node_id} goes on: it was started elsewhere, and is stopped there")
        except BaseException:
            self._cluster.kill()
            raise

    def _say_it_ended(self, node: NodeProcess) -> None:
        _say(f"node {node.node_id} (process {node.pid}) {node.how_it_ended()}")
        if node in self._starting:
            self._starting.remove(node)
        if not self._restarts:
            _say(f"  log: {node.place.log_path}")
            _say(f"  start it again, in another terminal, where Ctrl-C stops it then: {node.command}")

    def _say_how_to_use_it(self) -> None:
        cluster = self._cluster
        _say(f"cluster {cluster.layout.cluster_id} is ready")
        _say(f"  bootstrap servers: {cluster.bootstrap_servers}")
        for node in cluster.nodes:
            _say(f"  node {node.node_id}: process {node.pid}, port {node.place.port}, {node.place.folder}")
        _say("Try it, in another terminal:")
        _say(f"  servers={cluster.bootstrap_servers}")
        _say("  streamlog topic create greetings --bootstrap-server $servers")
        _say("  echo hello | streamlog produce greetings --bootstrap-server $servers")
        if len(cluster.nodes) > 2:
            _say(f"  kill -9 {cluster.nodes[0].pid}")
        _say("  streamlog consume greetings --bootstrap-server $servers")
        _say("Ctrl-C stops all nodes.")


def _say(line: str) -> None:
    typer.echo(printable(line))
