"""One simulated run: real door and machine, one store, many actors, one seed that says everything.

At each step one actor goes on to its next request, or a late request arrives, or an actor is killed. After each step
the oracle reads what is new in the store. At the end somebody who knows nothing opens the log and reads all of it.

One seed in twenty has a full history: all kinds of actors, some of them twice, some hundred steps. The others have some
of the kinds, by what they are about: a group whose members pin, maintenance that races itself, or a sink and a few
others. So many more orders of events are tried for the same time.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import TypeVar

from simulation.objects.faulty_objects import FaultRates, FaultyObjects
from simulation.objects.log_actors import (
    COMPACTED,
    KEYED,
    KEYS,
    PARTITIONS,
    TOPIC,
    at_least_once_writer,
    exactly_once_driver,
    group_member,
    key_reader,
    keyed_writer,
    maintainer,
    planned_driver,
    planned_writer,
    reader,
    topic_churner,
)
from simulation.objects.log_oracle import LogOracle, require
from support.objects.in_memory_objects import InMemoryObjects
from support.objects.sequential_requests import SequentialRequests
from support.spark.interleaved_actors import Actor

from broker_core.cluster import KeyRanges
from broker_core.model.exceptions import ObjectStoreError, StreamlogError, UploadExpiredError
from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster.log_ports import LogPorts
from broker_core.object_cluster.object_cluster import ObjectCluster
from broker_core.record.batch_reader import iter_headers, records_of

Value = TypeVar("Value")
Body = tuple[str, Callable[["ActorView"], None]]
"""The name of an actor, and what it does."""

START_MS = 1_764_000_000_000
MAX_STEP_COUNT = 3_000
FULL_HISTORY_CHANCE = 0.05
MAX_SKEW_MS = 200


class ObjectWorld:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.milliseconds = START_MS
        self.store = InMemoryObjects(now_ms=self.now_ms)
        self.oracle = LogOracle(self.store, now_ms=self.now_ms, pin_margin_ms=2 * MAX_SKEW_MS)
        self.grace_ms = self.dice.choice((2_000, 10_000))
        self.staged: dict[str, list[str]] = {}
        self.faults: Counter[str] = Counter()
        self.step_count = 0
        self.skipped_bytes = 0
        """By key filters."""
        self._late: list[Callable[[], object]] = []
        scale = self.dice.choice((0.0, 0.01, 0.05, 0.15))
        self.rates = FaultRates(*(scale * self.dice.random() for _ in range(4)))
        self._max_pace_ms = self.dice.choice((5, 50, 500))
        self._kill_chance = self.dice.choice((0.0, 0.0, 0.003, 0.01))
        self._is_about_groups = self.dice.random() < 0.25
        """Many members that pin the same partition, few others."""
        self._is_full = self.dice.random() < FULL_HISTORY_CHANCE

    def now_ms(self) -> int:
        return self.milliseconds

    def run(self) -> None:
        """Raises whatever is wrong."""
        self._make_topics()
        self.oracle.catch_up()
        actors = self._actors()
        weights = [self.dice.choice((0.1, 1.0, 1.0, 3.0)) for _ in actors]
        running, sums = list(actors), list(accumulate(weights))
        try:
            while running and self.step_count < MAX_STEP_COUNT:
                actor = self._step(running, sums)
                if actor is not None and actor.is_done:
                    del weights[running.index(actor)]
                    running.remove(actor)
                    sums = list(accumulate(weights))
        finally:
            for actor in actors:
                while not actor.is_done:
                    actor.kill()
        for late in self._late:
            _apply_late(late)
        self.oracle.catch_up()
        self._check_end()

    def _step(self, running: list[Actor], sums: list[float]) -> Actor | None:
        """Returns who went on. `sums` of the weights, by which one is drawn."""
        actor = None
        self.step_count += 1
        self.milliseconds += self.dice.randint(0, self._max_pace_ms)
        if self._late and self.dice.random() < 0.05:
            _apply_late(self._late.pop(self.dice.randrange(len(self._late))))
        else:
            actor = running[bisect_right(sums, self.dice.random() * sums[-1], 0, len(sums) - 1)]
            if self.dice.random() < self._kill_chance:
                self.faults["killed"] += 1
                actor.kill()
            else:
                actor.go_on()
            if actor.error is not None:
                raise actor.error
        self.oracle.catch_up()
        return actor

    def _actors(self) -> list[Actor]:
        bodies = self._bodies_of_full_history() if self._is_full else self._bodies_of_short_history()
        return [self._actor(name, body) for name, body in bodies]

    def _bodies_of_full_history(self) -> list[Body]:
        dice, is_about_groups = self.dice, self._is_about_groups
        bodies: list[Body] = []
        for app in ("a",) if is_about_groups else ("a", "b"):
            bodies += [(f"{app}{run}", self._driver(app, 4)) for run in range(dice.randint(1, 2))]
        bodies.append(("plain", lambda view: at_least_once_writer(view, dice.randint(1, 4))))
        bodies.append(("planned", lambda view: planned_writer(view, dice.randint(1, 3))))
        bodies.append(("keyed", lambda view: keyed_writer(view, 6)))
        for run in range(dice.randint(1, 2)):
            bodies.append((f"maintain{run}", lambda view: maintainer(view, 12 if is_about_groups else 4)))
        if not is_about_groups:
            bodies += [(f"churn{run}", lambda view: topic_churner(view, 8)) for run in range(dice.randint(0, 2))]
            bodies += [(f"read{run}", lambda view: reader(view, 6)) for run in range(dice.randint(1, 2))]
            bodies.append(("find", lambda view: key_reader(view, 6)))
        bodies += self._members(4 if is_about_groups else 1, 5)
        bodies.append(("member1", lambda view: group_member(view, "g", PARTITIONS[1], 5, pins=False, is_alone=True)))
        return bodies

    def _bodies_of_short_history(self) -> list[Body]:
        dice = self.dice
        if self._is_about_groups:
            # What is written moves the log start by retention, up to the smallest pin.
            return [
                ("a", self._driver("a", 3)),
                ("maintain", lambda view: maintainer(view, 10)),
                *self._members(dice.randint(2, 3), 5),
            ]
        if dice.random() < 0.25:
            # Merges, compactions and retention race one another, and somebody reads what they replace.
            return [
                *((f"plain{run}", lambda view: at_least_once_writer(view, 4)) for run in range(2)),
                *((f"maintain{run}", lambda view: maintainer(view, 4)) for run in range(2)),
                dice.choice((("keyed", lambda view: keyed_writer(view, 5)), ("a", self._driver("a", 2)))),
                dice.choice((("read", lambda view: reader(view, 3)), ("find", lambda view: key_reader(view, 4)))),
            ]
        # There is always somebody who writes, and whom others may race.
        bodies: list[Body] = [(f"a{run}", self._driver("a", dice.randint(1, 3))) for run in range(dice.randint(1, 2))]
        others: tuple[list[Body], ...] = (
            [("b", self._driver("b", 2))],
            [("plain", lambda view: at_least_once_writer(view, 2))],
            [("planned", lambda view: planned_writer(view, 2))],
            [("keyed", lambda view: keyed_writer(view, 5))],
            [(f"maintain{run}", lambda view: maintainer(view, 3)) for run in range(2)],
            [("churn", lambda view: topic_churner(view, 6))],
            [("read", lambda view: reader(view, 3)), ("find", lambda view: key_reader(view, 2))],
            [
                ("member0", lambda view: group_member(view, "g", PARTITIONS[0], 3, pins=True, is_alone=True)),
                ("member1", lambda view: group_member(view, "g", PARTITIONS[1], 3, pins=False, is_alone=True)),
            ],
        )
        return bodies + [body for some in dice.sample(others, dice.randint(1, 3)) for body in some]

    def _driver(self, app: str, last: int) -> Callable[[ActorView], None]:
        return partial(planned_driver if self.dice.random() < 0.5 else exactly_once_driver, app=app, last=last)

    def _members(self, count: int, rounds: int) -> list[Body]:
        """They pin the same partition."""
        member = partial(group_member, group="g", partition=PARTITIONS[0], rounds=rounds, pins=True)
        return [(f"member0{run}", partial(member, is_alone=count == 1)) for run in range(count)]

    def _actor(self, name: str, body: Callable[[ActorView], None]) -> Actor:
        dice = random.Random(self.dice.random())
        return Actor(name, lambda actor: body(ActorView(self, actor, dice)))

    def _make_topics(self) -> None:
        with ObjectCluster(self._ports(self.store, self.dice), create=True, maintains=False) as cluster:
            retention = {} if not self._is_about_groups and self.dice.random() < 0.5 else {"retention.bytes": "300"}
            cluster.create_topic(TOPIC, partition_count=2, configs=retention)
            configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
            cluster.create_topic(COMPACTED, partition_count=1, configs=configs)

    def _ports(self, store: object, dice: random.Random, *, skew_ms: int = 0, sleep_ms=lambda ms: None) -> LogPorts:
        return LogPorts(
            store=store,
            clock=SkewedClock(self, skew_ms),
            entropy=SeededEntropy(dice),
            sleep_ms=sleep_ms,
            steady_ms=lambda: float(self.milliseconds),
            requests=SequentialRequests(),
        )

    def send_late(self, apply: Callable[[], object]) -> None:
        self._late.append(apply)

    def check_skipped(self, partition: TopicPartition, key: bytes | None, found: KeyRanges, end: int) -> None:
        """No record of the key is outside of the ranges that were found below `end`."""
        self.oracle.catch_up()
        log = self.oracle.partitions[(self.oracle.topic_id(partition.topic), partition.partition)]
        self.skipped_bytes += found.skipped_bytes
        missed = [
            offset
            for offset, (other, _) in log.records.items()
            if other == key
            and log.log_start_offset <= offset < end
            and not any(a <= offset < b for a, b in found.ranges)
        ]
        require(not missed, f"{partition}: {key} is at {missed}, and is looked for in {found.ranges}")

    def _check_end(self) -> None:
        """What is committed is whole, a newcomer reads what the oracle has, and finds each key."""
        for app, history in self.oracle.apps.items():
            require([version for version, _ in history] == list(range(1, len(history) + 1)), f"{app}: {history}")
        self._check_whole_attempts()
        with ObjectCluster(self._ports(self.store, self.dice), maintains=False) as cluster:
            for topic_id, topic in self.oracle.topics.items():
                for number in range(topic["partitions"]):
                    partition = TopicPartition(topic["name"], number)
                    log = self.oracle.partitions[(topic_id, number)]
                    expected = {o: row for o, row in log.records.items() if o >= log.log_start_offset}
                    found = _read_all(cluster, partition, log.log_start_offset)
                    require(found == expected, f"{partition}: a newcomer reads {found}, not {expected}")
            for partition in (PARTITIONS[0], KEYED):
                end = cluster.bounds(partition).log_end_offset
                for key in KEYS:
                    self.check_skipped(partition, key, cluster.ranges_with_key(partition, key, 0, end), end)

    def _check_whole_attempts(self) -> None:
        """Of each version all rows of exactly one attempt: of those that its commit named."""
        rows: dict[str, set[str]] = {}
        for value in self.oracle.committed_values():
            parts = (value or b"").decode().rsplit(":", 2)
            if len(parts) == 3 and parts[0].count(":") == 2:
                rows.setdefault(parts[0], set()).add((value or b"").decode())
        expected = {}
        for app, history in self.oracle.apps.items():
            for version, note in history:
                mark = f"{app}:{version}:{note}"
                expected[mark] = set(self.staged[mark])
        require(rows == expected, f"rows {rows}, committed {expected}")


class ActorView:
    """What an actor works with: its dice, its own store with its own faults, logs that it opens over it."""

    def __init__(self, world: ObjectWorld, actor: Actor, dice: random.Random) -> None:
        self.world = world
        self.name = actor.name
        self.dice = dice
        self._actor = actor
        self._numbers = 0
        self._skew_ms = dice.randint(-MAX_SKEW_MS, MAX_SKEW_MS)
        self._store = FaultyObjects(
            world.store,
            actor,
            dice,
            world.rates,
            send_late=world.send_late,
            on_delete=world.oracle.on_delete,
            on_fault=lambda name: world.faults.update([name]),
        )

    def open(self) -> ObjectCluster:
        ports = self.world._ports(self._store, self.dice, skew_ms=self._skew_ms, sleep_ms=self._sleep)
        return ObjectCluster(ports, maintains=False)

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def tried(self, call: Callable[[], Value]) -> Value | None:
        """None when the store would not, or it took too long."""
        try:
            return call()
        except (ObjectStoreError, UploadExpiredError):
            return None

    def until_answered(self, call: Callable[[], Value]) -> Value:
        while True:
            try:
                return call()
            except ObjectStoreError:
                continue

    def _sleep(self, duration_ms: float) -> None:
        self._actor.pause()


class SkewedClock:
    def __init__(self, world: ObjectWorld, skew_ms: int) -> None:
        self._world = world
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return self._world.milliseconds + self._skew_ms


class SeededEntropy:
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def random_bytes(self, count: int) -> bytes:
        return self._dice.randbytes(count)


def _apply_late(apply: Callable[[], object]) -> None:
    try:
        apply()
    except StreamlogError:
        return


def _read_all(cluster: ObjectCluster, partition: TopicPartition, position: int) -> dict:
    found: dict = {}
    while True:
        fetched = cluster.fetch(partition, position, max_bytes=300)
        for place, _ in iter_headers(bytes(fetched.buffer)):
            for record in records_of(bytes(fetched.buffer), place):
                if record.offset >= position:
                    found[record.offset] = (record.key, record.value)
        if fetched.next_offset == position:
            return found
        position = fetched.next_offset
