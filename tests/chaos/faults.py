"""One fault after the other, chosen by a seed. Each is healed before the next one; it counts only if it was hit."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from broker_core.server.local.local_cluster import LocalCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class HitFault:
    """`at_s` is in seconds since the run began."""

    kind: str
    node_ids: tuple[int, ...]
    at_s: float
    seconds: float


class Faults:
    """`say` is called with each one."""

    def __init__(self, cluster: LocalCluster, seed: int, *, say: Callable[[str], None]) -> None:
        self._cluster, self._say = cluster, say
        self._dice = random.Random(seed)
        self._began_s = time.monotonic()
        self.history: list[HitFault] = []

    def counts(self) -> Counter[str]:
        return Counter(fault.kind for fault in self.history)

    def next(self) -> None:
        """Begins one, waits, and heals it."""
        dice, ids = self._dice, [node.node_id for node in self._cluster.nodes]
        kind = dice.choice(
            ["kill", "kill leader", "kill controller", "pause", "pause controller", "stop", "kill two", "kill all"]
        )
        if kind == "kill all" and dice.random() < 0.5:
            kind = "kill"
        node_ids = self._chosen(kind, ids)
        seconds = dice.uniform(0.5, 8)
        self._say(f"{kind} of {', '.join(map(str, node_ids))} for {seconds:.1f} s")
        at_s = time.monotonic() - self._began_s
        self._begin(kind, node_ids)
        time.sleep(seconds)
        self._heal(node_ids)
        self.history.append(HitFault(kind=kind, node_ids=node_ids, at_s=at_s, seconds=seconds))

    def _chosen(self, kind: str, ids: list[int]) -> tuple[int, ...]:
        if kind.endswith("controller"):
            return (self._cluster.controller_id,)
        if kind.endswith("leader"):
            return (self._cluster.leader_of("events", self._dice.randrange(3)),)
        count = {"kill two": 2, "kill all": len(ids)}.get(kind, 1)
        return tuple(self._dice.sample(ids, count))

    def _begin(self, kind: str, node_ids: tuple[int, ...]) -> None:
        for node_id in node_ids:
            node = self._cluster.node(node_id)
            assert node.is_running, f"node {node_id} had ended before the fault: {node.how_it_ended()}"
            if kind.startswith("kill"):
                node.kill()
                assert not node.is_running
            elif kind.startswith("pause"):
                node.pause()
                assert node.is_paused
            else:
                node.ask_to_stop()

    def _heal(self, node_ids: tuple[int, ...]) -> None:
        for node_id in node_ids:
            node = self._cluster.node(node_id)
            if node.is_paused:
                node.resume()
            elif node.is_running:
                node.wait_until_stopped()
        for node_id in node_ids:
            if not self._cluster.node(node_id).is_running:
                self._cluster.node(node_id).spawn()
        for node_id in node_ids:
            self._cluster.node(node_id).wait_until_ready()
