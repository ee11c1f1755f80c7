"""Partitions shared out among members that are not all subscribed to the same topics: balanced first, then sticky.

    1. every member keeps what it has of the topics that it is subscribed to
    2. topic by topic, the one with the most partitions for each subscriber first, what is nobody's goes to the
       subscribers that have the least
    3. topic by topic, again and again: partitions go from the subscribers with the most to those with the least, until
       no topic has two subscribers whose loads differ by more than one and who could help each other, or ROUNDS_COUNT

Where subscriptions overlap without being the same the end may be a little out of balance: a step looks at one topic.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from broker_core.group.consumer.consumer_group_records import Partitions

ROUNDS_COUNT: Final = 16
"""Each round about halves what is out of balance; most subscriptions need one."""


def assign_uneven(
    subscriptions: Mapping[str, frozenset[UUID]],
    targets: Mapping[str, Partitions],
    partition_counts: Mapping[UUID, int],
) -> dict[str, Partitions]:
    """By member id; `subscriptions` gives the order in which equals are served."""
    share_out = _ShareOut(subscriptions, targets, partition_counts)
    share_out.hand_out_free()
    share_out.balance()
    return share_out.result()


class _ShareOut:
    """Members are numbers, in their order: `owners[topic][partition]` is one of them, or None."""

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
                assert owner is not None, f"partition {partition} of topic {topic} is nobody's"
                found[owner].setdefault(topic, set()).add(partition)
        return {
            member_id: {topic: frozenset(partitions) for topic, partitions in found[number].items()}
            for number, member_id in enumerate(self._members)
        }

    def _priority(self, topic: UUID) -> tuple[float, int, UUID]:
        subscribers = len(self._subscribers[topic])
        return -len(self._owners[topic]) / subscribers, subscribers, topic

    def _balance_topic(self, topic: UUID) -> int:
        """How many partitions were moved: from the most loaded that has one of the topic, its last, to the least."""
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic]):
            assert owner is not None, f"partition {partition} of topic {topic} is nobody's"
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
        """Orders members by what they have; equals by their number."""
        return self._loads[number], number

    def _give(self, topic: UUID, partition: int, number: int) -> None:
        owner = self._owners[topic][partition]
        if owner is not None:
            self._loads[owner] -= 1
        self._owners[topic][partition] = number
        self._loads[number] += 1


class _LeastLoaded:
    """The subscriber with the least, again and again; of equals the first. It counts on each being given one."""

    def __init__(self, subscribers: list[int], loads: list[int]) -> None:
        self._heap = [(loads[number], number) for number in subscribers]
        heapq.heapify(self._heap)

    def next(self) -> int:
        load, number = self._heap[0]
        heapq.heapreplace(self._heap, (load + 1, number))
        return number
