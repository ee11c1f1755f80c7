"""Assigns partitions to members with different subscriptions: balanced first, then sticky.

    1. every member keeps its partitions of the topics that it subscribes to
    2. topic by topic, the one with the most partitions per subscriber first, free partitions go to the least loaded
       subscribers
    3. topic by topic, repeatedly: partitions move from the most to the least loaded subscribers, until in no topic
       two subscribers differ by more than one and could balance each other, or ROUNDS_COUNT is reached

Where subscriptions overlap partly the result may be slightly unbalanced: each step looks at one topic.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from broker_core.group.consumer_group_records import Partitions

ROUNDS_COUNT: Final = 16
"""Each round about halves the imbalance; most subscriptions need one."""


def assign_uneven(
    subscriptions: Mapping[str, frozenset[UUID]],
    targets: Mapping[str, Partitions],
    partition_counts: Mapping[UUID, int],
) -> dict[str, Partitions]:
    """By member id; the order of `subscriptions` breaks ties."""
    share_out = _ShareOut(subscriptions, targets, partition_counts)
    share_out.hand_out_free()
    share_out.balance()
    return share_out.result()


class _ShareOut:
    """Members are numbered in their order: `owners[topic][partition]` is such a number, or None."""

    def __init__(
        self,
        subscriptions: Mapping[str, frozenset[UUID]],
        targets: Mapping[str, Partitions],
        partition_counts: Mapping[UUID, int],
    ) -> None:
        self._members = list(subscriptions)
        self._subscribers: dict[UUID, list[int]] = {}
        for number, member_id in enumerate(self._members):
            for topic in subscriptions[member_id]:
                self._subscribers.setdefault(topic, []).append(number)
        self._owners: dict[UUID, list[int | None]] = {
            topic: [None] * partition_counts[topic] for topic in self._subscribers
        }
        self._loads = [0] * len(self._members)
        for number, member_id in enumerate(self._members):
            for topic in subscriptions[member_id] & targets[member_id].keys():
                for partition in targets[member_id][topic]:
                    self._give(topic, partition, number)
        self._topics = sorted(self._subscribers, key=self._priority)

    def hand_out_free(self) -> None:
        for topic in self._topics:
            least = _LeastLoaded(self._subscribers[topic], self._loads)
            for partition, owner in enumerate(self._owners[topic]):
                if owner is None:
                    self._give(topic, partition, least.next())

    def balance(self) -> None:
        topics = [topic for topic in self._topics if len(self._subscribers[topic]) > 1]
        for _ in range(ROUNDS_COUNT):
            if not sum([self._balance_topic(topic) for topic in topics]):
                return

    def result(self) -> dict[str, Partitions]:
        found: list[dict[UUID, set[int]]] = [{} for _ in self._members]
        for topic in sorted(self._owners):
            for partition, owner in enumerate(self._owners[topic]):
                assert owner is not None, f"partition {partition} of topic {topic} is unassigned"
                found[owner].setdefault(topic, set()).add(partition)
        return {
            member_id: {topic: frozenset(partitions) for topic, partitions in found[number].items()}
            for number, member_id in enumerate(self._members)
        }

    def _priority(self, topic: UUID) -> tuple[float, int, UUID]:
        subscribers = len(self._subscribers[topic])
        return -len(self._owners[topic]) / subscribers, subscribers, topic

    def _balance_topic(self, topic: UUID) -> int:
        """Moves partitions of the topic from the most to the least loaded subscriber; returns how many were moved."""
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic]):
            assert owner is not None, f"partition {partition} of topic {topic} is unassigned"
            held.setdefault(owner, []).append(partition)
        moved = 0
        subscribers = self._subscribers[topic]
        while True:
            giver = max((number for number in subscribers if held.get(number)), key=self._load, default=None)
            taker = min(subscribers, key=self._load)
            if giver is None or self._loads[giver] - self._loads[taker] <= 1:
                return moved
            self._give(topic, held[giver].pop(), taker)
            moved += 1

    def _load(self, number: int) -> tuple[int, int]:
        """Orders members by load; ties by number."""
        return self._loads[number], number

    def _give(self, topic: UUID, partition: int, number: int) -> None:
        owner = self._owners[topic][partition]
        if owner is not None:
            self._loads[owner] -= 1
        self._owners[topic][partition] = number
        self._loads[number] += 1


class _LeastLoaded:
    """Yields the least loaded subscriber repeatedly, on ties the first. Assumes that each one is given a partition."""

    def __init__(self, subscribers: list[int], loads: list[int]) -> None:
        self._heap = [(loads[number], number) for number in subscribers]
        heapq.heapify(self._heap)

    def next(self) -> int:
        load, number = self._heap[0]
        heapq.heapreplace(self._heap, (load + 1, number))
        return number
