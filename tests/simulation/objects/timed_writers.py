"""Many writers of one log in simulated time: each request takes some time to the store and back, and may go wrong.

The writer that is due first runs next, so the order is that of real clocks, in a fraction of the time.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

from simulation.objects.faulty_objects import FaultRates, FaultyObjects
from simulation.objects.object_world import SeededEntropy
from support.objects.in_memory_objects import InMemoryObjects
from support.objects.sequential_requests import SequentialRequests
from support.spark.interleaved_actors import Actor

from broker_core.model.exceptions import ObjectPreconditionError, ObjectStoreError, StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_cluster.object_cluster import ObjectCluster
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record

START_MS = 1_764_000_000_000
TOPIC = "t"


class TimedWriters:
    """`one_way_ms`: from a writer to the store, or back, within which each request draws its own time."""

    def __init__(self, seed: int, *, writer_count: int, one_way_ms: tuple[float, float], rates: FaultRates) -> None:
        self.elapsed_ms = 0.0
        self.store = InMemoryObjects(now_ms=self.now_ms)
        self.faults = 0
        self._dice = random.Random(seed)
        self._one_way_ms = one_way_ms
        self._rates = rates
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._order = itertools.count()
        with ObjectCluster(self._ports(self.store, self._dice, lambda ms: None), create=True, maintains=False) as made:
            made.create_topic(TOPIC)
        self.writers = [BusyWriter(self, f"writer{number}", self._dice.random()) for number in range(writer_count)]

    def now_ms(self) -> int:
        return START_MS + int(self.elapsed_ms)

    def run(self, duration_ms: float) -> None:
        for writer in self.writers:
            self.call_in(self._dice.random() * self._one_way_ms[1], writer.actor.go_on)
        try:
            while self._due and self._due[0][0] < duration_ms:
                self.elapsed_ms, _, call = heapq.heappop(self._due)
                call()
                for writer in self.writers:
                    if writer.actor.error is not None:
                        raise writer.actor.error
        finally:
            for writer in self.writers:
                while not writer.actor.is_done:
                    writer.actor.kill()

    def call_in(self, delay_ms: float, call: Callable[[], object]) -> None:
        heapq.heappush(self._due, (self.elapsed_ms + delay_ms, next(self._order), call))

    def send_late(self, apply: Callable[[], object]) -> None:
        def arrive() -> None:
            try:
                apply()
            except StreamlogError:
                return

        self.call_in(self._dice.random() * 1000, arrive)

    def on_fault(self, name: str) -> None:
        self.faults += 1

    def draw_way_ms(self) -> float:
        return self._dice.uniform(*self._one_way_ms)

    def _ports(self, store: Any, dice: random.Random, sleep_ms: Callable[[float], None]) -> LogPorts:
        return LogPorts(
            store=store,
            clock=self,
            entropy=SeededEntropy(dice),
            sleep_ms=sleep_ms,
            steady_ms=lambda: self.elapsed_ms,
            requests=SequentialRequests(),
        )


class BusyWriter:
    """Appends a record, and then the next one. `most_lost`: how often in a row one of its commits lost the race for its
    number; `slowest_ms`: of one append."""

    def __init__(self, world: TimedWriters, name: str, seed: float) -> None:
        self.commit_count = 0
        self.most_lost = 0
        self.slowest_ms = 0.0
        self._lost = 0
        self._world = world
        self._dice = random.Random(seed)
        self.actor = Actor(name, self._write)

    def _write(self, actor: Actor) -> None:
        world = self._world
        store = _TimedObjects(
            world.store,
            _Waits(world, actor),
            self._dice,
            world._rates,
            send_late=world.send_late,
            on_delete=lambda path: None,
            on_fault=world.on_fault,
            read_pause_chance=1.0,
        )
        store.on_lost_race = self._on_lost_race
        ports = world._ports(store, self._dice, lambda ms: self._sleep(actor, ms))
        with ObjectCluster(ports, maintains=False) as cluster:
            while True:
                began_ms = world.elapsed_ms
                try:
                    batch = build_batch([Record(value=actor.name.encode(), timestamp_ms=world.now_ms())])
                    cluster.append(TopicPartition(TOPIC, 0), batch)
                except ObjectStoreError:
                    continue
                self.slowest_ms = max(self.slowest_ms, world.elapsed_ms - began_ms)
                self.commit_count += 1
                self._lost = 0

    def _on_lost_race(self) -> None:
        self._lost += 1
        self.most_lost = max(self.most_lost, self._lost)

    def _sleep(self, actor: Actor, duration_ms: float) -> None:
        self._world.call_in(duration_ms, actor.go_on)
        actor.pause()


class _Waits:
    """An actor to whom a request takes its time, instead of a draw of the scheduler's."""

    def __init__(self, world: TimedWriters, actor: Actor) -> None:
        self._world = world
        self._actor = actor

    def pause(self) -> None:
        self._world.call_in(self._world.draw_way_ms(), self._actor.go_on)
        self._actor.pause()


class _TimedObjects(FaultyObjects):
    """An answer takes its time, too."""

    on_lost_race: Callable[[], None]

    def put_if_absent(self, path: str, data: Any) -> str:
        try:
            return super().put_if_absent(path, data)
        except ObjectPreconditionError:
            if path.startswith("commits/"):
                self.on_lost_race()
            raise

    def _read(self, apply: Callable[[], Any], path: str) -> Any:
        return self._answered(lambda: super(_TimedObjects, self)._read(apply, path))

    def _write(self, apply: Callable[[], Any], path: str) -> Any:
        return self._answered(lambda: super(_TimedObjects, self)._write(apply, path))

    def _answered(self, ask: Callable[[], Any]) -> Any:
        try:
            answer = ask()
        except StreamlogError:
            self._actor.pause()
            raise
        self._actor.pause()
        return answer
