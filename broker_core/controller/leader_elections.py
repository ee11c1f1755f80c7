"""Elections over many partitions: a broker is fenced, leaves, comes back or loses a directory, or a user asks.

Each returns PartitionChangeRecords in the order of topics' rows; partitions that stay as they are have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_facts import ClusterFacts
from broker_core.controller.partition_change import Election, PartitionWish, plan_partition_change
from broker_core.metadata.metadata_records import PartitionChangeRecord
from broker_core.metadata.partition_state import NO_LEADER, PartitionState
from broker_core.metadata.security_plans import Refusal

_NOBODY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlacedPartition:
    topic_id: UUID
    topic: str
    number: int
    state: PartitionState


def plan_removal(facts: ClusterFacts, broker_id: int) -> list[PartitionChangeRecord]:
    """The broker is fenced, stops or is unregistered: out of every ISR, its partitions led by others. Where no
    other replica is in sync it stays eligible."""
    return list(_changes(facts, _in_isr(facts, broker_id), removed=broker_id))


def plan_unclean_removal(facts: ClusterFacts, broker_id: int) -> list[PartitionChangeRecord]:
    """As `plan_removal` for a broker that may have lost records: it is not eligible any more either."""
    rows = {(row.topic_id, row.number): row for row in (*_in_isr(facts, broker_id), *_eligible(facts, broker_id))}
    return list(_changes(facts, rows.values(), unclean=broker_id))


def plan_return(facts: ClusterFacts, broker_id: int) -> list[PartitionChangeRecord]:
    """The broker is unfenced: leaderless partitions get a leader if there is one now."""
    return list(_changes(facts, _leaderless(facts), added=broker_id))


def plan_directory_loss(
    facts: ClusterFacts, broker_id: int, directories: frozenset[UUID]
) -> list[PartitionChangeRecord]:
    """Directories of the broker are offline: its replicas there leave their ISR."""
    rows = (
        row
        for row in _in_isr(facts, broker_id)
        if row.state.directories[row.state.replicas.index(broker_id)] in directories
    )
    return list(_changes(facts, rows, removed=broker_id))


def plan_elections_where_allowed(facts: ClusterFacts, limit: int) -> list[PartitionChangeRecord]:
    """Partitions without a leader whose topics allow unclean elections; at most `limit` of them."""
    found: list[PartitionChangeRecord] = []
    for record in _changes(facts, (row for row in _leaderless(facts) if facts.is_unclean_allowed(row.topic))):
        if len(found) == limit:
            break
        found.append(record)
    return found


def plan_preferred_elections(facts: ClusterFacts, limit: int) -> list[PartitionChangeRecord]:
    """Partitions that another than their first replica leads go back to it if it is in sync; at most `limit`."""
    found: list[PartitionChangeRecord] = []
    for broker_id in sorted(facts.image.registrations.brokers):
        for row in _rows(facts, facts.image.partitions.led_by(broker_id)):
            if row.state.replicas[0] == broker_id or not facts.may_lead(row.state, row.state.replicas[0]):
                continue
            record = _elected(facts, row, Election.PREFERRED)
            if record is not None:
                found.append(record)
            if len(found) == limit:
                return found
    return found


def plan_election(facts: ClusterFacts, topic: str, number: int, *, is_unclean: bool) -> PartitionChangeRecord | Refusal:
    """Of one partition, as a user asks for it."""
    description = facts.image.topics.get(topic)
    if description is None:
        return Refusal(error_code=ErrorCode.unknown_topic_or_partition, message=f"No such topic as {topic}")
    state = facts.image.partition(description.topic_id, number)
    if state is None:
        return Refusal(
            error_code=ErrorCode.unknown_topic_or_partition, message=f"No such partition as {topic}-{number}"
        )
    is_needed = state.leader == NO_LEADER if is_unclean else state.leader != state.replicas[0]
    if not is_needed:
        return Refusal(
            error_code=ErrorCode.election_not_needed, message="Leader election not needed for topic partition."
        )
    row = _PlacedPartition(topic_id=description.topic_id, topic=topic, number=number, state=state)
    record = _elected(facts, row, Election.UNCLEAN if is_unclean else Election.PREFERRED)
    if record is not None:
        return record
    if is_unclean:
        return Refusal(
            error_code=ErrorCode.eligible_leaders_not_available,
            message="Eligible topic partition leaders are not available.",
        )
    return Refusal(
        error_code=ErrorCode.preferred_leader_not_available, message="The preferred leader was not available."
    )


def leads(facts: ClusterFacts, broker_id: int) -> bool:
    return bool(facts.image.partitions.led_by(broker_id))


def _elected(facts: ClusterFacts, row: _PlacedPartition, election: Election) -> PartitionChangeRecord | None:
    rules = facts.rules_of(row.topic, row.state)
    return plan_partition_change(row.topic_id, row.number, row.state, rules, PartitionWish(election=election))


def _changes(
    facts: ClusterFacts,
    rows: Iterable[_PlacedPartition],
    *,
    removed: int = _NOBODY,
    added: int = _NOBODY,
    unclean: int = _NOBODY,
) -> Iterator[PartitionChangeRecord]:
    """`added` may lead though it is fenced still, `removed` and `unclean` may not though they are not yet."""
    for row in rows:
        record = _change_without(facts, row, removed=removed, added=added, unclean=unclean)
        if record is not None:
            yield record


def _change_without(
    facts: ClusterFacts, row: _PlacedPartition, *, removed: int, added: int, unclean: int
) -> PartitionChangeRecord | None:
    state = row.state

    def is_acceptable(broker_id: int) -> bool:
        if broker_id in (removed, unclean):
            return False
        is_alive = broker_id == added or facts.is_active(broker_id)
        return is_alive and facts.has_online_directory(state, broker_id)

    target = PartitionWish(
        isr=tuple(broker_id for broker_id in state.isr if broker_id not in (removed, unclean)),
        election=Election.UNCLEAN if facts.is_unclean_allowed(row.topic) else Election.ONLINE,
        unclean_brokers=frozenset() if unclean == _NOBODY else frozenset({unclean}),
    )
    rules = facts.rules_of(row.topic, state, is_acceptable)
    return plan_partition_change(row.topic_id, row.number, state, rules, target)


def _in_isr(facts: ClusterFacts, broker_id: int) -> Iterator[_PlacedPartition]:
    held = facts.image.partitions.held_by(broker_id)
    return (row for row in _rows(facts, held) if broker_id in row.state.isr)


def _eligible(facts: ClusterFacts, broker_id: int) -> Iterator[_PlacedPartition]:
    with_eligible = facts.image.partitions.with_eligible_leaders
    return (row for row in _rows(facts, with_eligible) if broker_id in row.state.eligible_leader_replicas)


def _leaderless(facts: ClusterFacts) -> Iterator[_PlacedPartition]:
    return _rows(facts, facts.image.partitions.leaderless)


def _rows(facts: ClusterFacts, numbers: Iterable[int]) -> Iterator[_PlacedPartition]:
    partitions = facts.image.partitions
    for at in numbers:
        topic_id, number = partitions.partition_at(at)
        topic = facts.image.topic_by_id(topic_id)
        assert topic is not None, topic_id
        yield _PlacedPartition(topic_id=topic_id, topic=topic.name, number=number, state=partitions.state_at(at))
