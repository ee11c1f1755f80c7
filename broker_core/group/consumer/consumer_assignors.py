"""The coordinator's assignors for a KIP-848 group, `uniform` and `range`.

uniform   balances the number of partitions over all topics and moves as few of them as possible. For members with
          different subscriptions see `uneven_subscriptions`
range     gives each member a range of neighbouring partitions per topic, in the order of members: topics with the
          same number of partitions are assigned alike, so records with the same key meet in one member. Static
          members come first, by instance id, and keep their ranges when others join and leave

Members and topics are visited in the order of their ids (Kafka: in hash table order). So the result is deterministic,
and an assignment that Kafka stored is kept where the rules allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from broker_core.group.consumer.uneven_subscriptions import assign_uneven
from broker_core.group.consumer_group_records import Partitions

DEFAULT_ASSIGNOR: Final = "uniform"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """`topics`: existing topics that the member is subscribed to. `target`: its previous target assignment."""

    topics: frozenset[UUID]
    target: Partitions = field(default_factory=dict)
    instance_id: str | None = None


Assignment = dict[str, Partitions]
"""By member id; members without partitions may be missing."""


def assign(assignor: str, members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> Assignment:
    """`assignor` is one of ASSIGNORS; `partition_counts` has every topic that a member is subscribed to."""
    return ASSIGNORS[assignor](members, partition_counts) if members else {}


def _assign_uniform(members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> Assignment:
    if len({spec.topics for spec in members.values()}) == 1:
        return _assign_even(members, partition_counts)
    subscriptions = {member_id: members[member_id].topics for member_id in sorted(members)}
    return assign_uneven(subscriptions, {name: spec.target for name, spec in members.items()}, partition_counts)


def _assign_even(members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> Assignment:
    """For equal subscriptions. Each member keeps what it has up to its share; the rest is distributed."""
    topics = sorted(next(iter(members.values())).topics)
    everything = [(topic, partition) for topic in topics for partition in range(partition_counts[topic])]
    assigned = {pair for spec in members.values() for pair in _pairs(spec.target)}
    free = [pair for pair in everything if pair not in assigned]
    share, extra = divmod(len(everything), len(members))
    kept: dict[str, list[tuple[UUID, int]]] = {}
    lacking: dict[str, int] = {}
    for index, member_id in enumerate(sorted(members)):
        held = [pair for pair in _pairs(members[member_id].target) if pair[0] in members[member_id].topics]
        quota = share + (extra > 0)
        kept[member_id] = held[:quota]
        free += held[quota:]
        # A member that already has an extra partition keeps it, unless every remaining member has to take one.
        if extra and len(held) < quota and len(members) - index > extra:
            quota -= 1
        elif extra:
            extra -= 1
        lacking[member_id] = quota - len(kept[member_id])
    at = 0
    for member_id, count in lacking.items():
        kept[member_id] += free[at : at + count]
        at += count
    assert at == len(free), f"{len(free) - at} partitions are unassigned"
    return {member_id: _by_topic(pairs) for member_id, pairs in kept.items()}


def _assign_range(members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> Assignment:
    ordered = sorted(members, key=lambda name: (members[name].instance_id is None, members[name].instance_id or name))
    subscribers: dict[UUID, list[str]] = {}
    for member_id in ordered:
        for topic in members[member_id].topics:
            subscribers.setdefault(topic, []).append(member_id)
    found: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in ordered}
    for topic in sorted(subscribers):
        share, extra = divmod(partition_counts[topic], len(subscribers[topic]))
        start = 0
        for index, member_id in enumerate(subscribers[topic]):
            until = start + share + (index < extra)
            if until > start:
                found[member_id][topic] = frozenset(range(start, until))
            start = until
    return dict(found)


def _pairs(partitions: Partitions) -> list[tuple[UUID, int]]:
    return [(topic, partition) for topic in sorted(partitions) for partition in sorted(partitions[topic])]


def _by_topic(pairs: list[tuple[UUID, int]]) -> Partitions:
    found: dict[UUID, set[int]] = {}
    for topic, partition in pairs:
        found.setdefault(topic, set()).add(partition)
    return {topic: frozenset(partitions) for topic, partitions in found.items()}


ASSIGNORS: Final[Mapping[str, Callable[[Mapping[str, MemberSpec], Mapping[UUID, int]], Assignment]]] = {
    "uniform": _assign_uniform,
    "range": _assign_range,
}
"""By the name that members request."""
