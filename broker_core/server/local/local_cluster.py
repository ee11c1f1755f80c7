"""A cluster on this machine, each node in a process of its own.

with LocalCluster(open_layout(path)) as cluster:       starts all nodes, kills them in the end
    cluster.bootstrap_servers
    cluster.node(1).kill()
    cluster.leader_of("orders", 0)                     once a node that runs leads it
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from broker_core.model.exceptions import BrokerUnavailableError, MalformedMessageError
from broker_core.server.local.cluster_layout import ClusterLayout
from broker_core.server.local.node_process import NodeProcess, StartProcess, start_program

if TYPE_CHECKING:
    from broker_core.server.local.cluster_questions import PartitionAnswer

Answer = TypeVar("Answer")
_ANSWER_SECONDS: Final = 30.0
_SLEEP_SECONDS: Final = 0.02


class LocalCluster:
    """Not thread-safe. Nothing is started before `start`."""

    def __init__(self, layout: ClusterLayout, *, start_process: StartProcess = start_program) -> None:
        self.layout = layout
        self.nodes = tuple(NodeProcess(place, layout.cluster_id, start_process=start_process) for place in layout.nodes)

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all nodes, in the form that clients use."""
        return self.layout.bootstrap_servers

    def node(self, node_id: int) -> NodeProcess:
        return next(node for node in self.nodes if node.node_id == node_id)

    def start(self) -> None:
        """Starts the nodes that do not run; returns when all are ready. Raises BrokerUnavailableError."""
        for node in self.nodes:
            if not node.is_running:
                node.spawn()
        for node in self.nodes:
            node.wait_until_ready()

    def stop(self) -> None:
        """Stops all nodes in order, at the same time. Raises BrokerUnavailableError for a node that does not stop."""
        for node in self.nodes:
            node.ask_to_stop()
        errors = []
        for node in self.nodes:
            try:
                node.wait_until_stopped()
            except BrokerUnavailableError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    @property
    def controller_id(self) -> int:
        """The node whose controller is active, one that runs and is not paused. Waits until there is one."""
        # Imported here, and below: `streamlog cluster start` asks nothing, and would wait for Kafka's messages.
        from broker_core.server.local.cluster_questions import ask_who_leads_quorum

        return self._first_answer(ask_who_leads_quorum, lambda found: found, "has an active controller", of_quorum=True)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The node that leads the partition, one that runs and is not paused. Waits until there is one."""
        return self.partition(topic, partition).leader_id

    def in_sync_replicas(self, topic: str, partition: int = 0) -> frozenset[int]:
        return self.partition(topic, partition).in_sync

    def partition(self, topic: str, partition: int = 0) -> PartitionAnswer:
        """As a node that runs tells, once the leader runs, too."""
        from broker_core.server.local.cluster_questions import ask_about_partition

        return self._first_answer(
            lambda port: ask_about_partition(port, topic, partition),
            lambda found: found.leader_id,
            f"leads {topic}-{partition}",
        )

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def _first_answer(
        self,
        ask: Callable[[int], Answer | None],
        leader_in: Callable[[Answer], int],
        what: str,
        *,
        of_quorum: bool = False,
    ) -> Answer:
        """The first answer that names a leader that runs."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while True:
            running = [node for node in self.nodes if node.is_running and not node.is_paused]
            for node in running:
                with contextlib.suppress(OSError, MalformedMessageError):
                    answer = ask(node.place.controller_port if of_quorum else node.place.port)
                    if answer is not None and leader_in(answer) in {each.node_id for each in running}:
                        return answer
            if time.monotonic() > deadline:
                ids = ", ".join(str(node.node_id) for node in running) or "none"
                raise BrokerUnavailableError(f"no running node {what} after {_ANSWER_SECONDS:g} s; running: {ids}")
            time.sleep(_SLEEP_SECONDS)
