"""Partitions move to other brokers, as plans: a reassignment begins, is called off, is listed.

    target T, the partition on R       adding T - R, removing R - T, replicas T and then what is removed
    a second one while one goes on     what the first was adding still counts as added
    called off                         the replicas that were added leave again, those to be removed stay

It ends by itself, when an ISR has everything that is added: see `partition_change`. One that adds nothing may end in
the record that begins it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_facts import ClusterFacts
from broker_core.controller.partition_change import RECOVERING, PartitionWish, plan_partition_change
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.metadata.partition_state import PartitionState
from broker_core.metadata.replica_assignment import refusal_of_assignment
from broker_core.model.exceptions import RequestRefusedError, UnknownPartitionError, UnknownTopicError


def plan_reassignment(
    facts: ClusterFacts, topic: str, number: int, replicas: Sequence[int] | None, *, may_change_factor: bool
) -> CoordinatorResult[MetadataRecord, None]:
    """None calls it off. Raises StreamlogError, whose `error_code` and message are the answer."""
    state = _partition(facts, topic, number)
    if replicas is None:
        wish = _cancellation(facts, topic, number, state)
    else:
        wish = _beginning(facts, state, tuple(replicas), may_change_factor=may_change_factor)
    topic_id = facts.image.topics[topic].topic_id
    record = plan_partition_change(topic_id, number, state, facts.rules_of(topic, state), wish)
    return CoordinatorResult(records=() if record is None else (record,), reply=None)


def reassignments(facts: ClusterFacts) -> Iterator[tuple[str, int, PartitionState]]:
    """Those that go on, as (topic, partition, its state)."""
    partitions = facts.image.partitions
    for row in partitions.reassigning:
        topic_id, number = partitions.partition_at(row)
        topic = facts.image.topic_by_id(topic_id)
        assert topic is not None, topic_id
        yield topic.name, number, partitions.state_at(row)


def _partition(facts: ClusterFacts, topic: str, number: int) -> PartitionState:
    description = facts.image.topics.get(topic)
    if description is None:
        raise UnknownTopicError(f"Unable to find a topic named {topic}.", topic=topic)
    state = facts.image.partition(description.topic_id, number)
    if state is None:
        raise UnknownPartitionError(f"Unable to find partition {topic}:{number}.", topic=topic)
    return state


def _beginning(
    facts: ClusterFacts, state: PartitionState, wanted: tuple[int, ...], *, may_change_factor: bool
) -> PartitionWish:
    refusal = refusal_of_assignment(facts.image.registrations.brokers, wanted)
    if refusal is not None:
        raise RequestRefusedError(refusal, error_code=ErrorCode.invalid_replica_assignment)
    before = tuple(replica for replica in state.replicas if replica not in state.adding_replicas)
    if not may_change_factor and len(wanted) != len(before):
        raise RequestRefusedError(
            f"The replication factor is changed from {len(before)} to {len(wanted)}",
            error_code=ErrorCode.invalid_replication_factor,
        )
    removing = tuple(sorted(set(state.replicas) - set(wanted)))
    adding = tuple(sorted(set(wanted) - set(before)))
    return PartitionWish(replicas=(*wanted, *removing), removing=removing, adding=adding)


def _cancellation(facts: ClusterFacts, topic: str, number: int, state: PartitionState) -> PartitionWish:
    if not state.is_reassigning:
        raise RequestRefusedError(
            "No partition reassignment is in progress.", error_code=ErrorCode.no_reassignment_in_progress
        )
    replicas = tuple(replica for replica in state.replicas if replica not in state.adding_replicas)
    isr = tuple(replica for replica in state.isr if replica not in state.adding_replicas)
    is_lost = bool(state.isr) and not isr
    if is_lost and not facts.is_unclean_allowed(topic):
        raise RequestRefusedError(
            f"Unable to revert partition assignment for {topic}:{number} because it would require an unclean leader"
            " election.",
            error_code=ErrorCode.invalid_replica_assignment,
        )
    return PartitionWish(
        isr=replicas[:1] if is_lost else isr,
        replicas=replicas,
        removing=(),
        adding=(),
        recovery_state=RECOVERING if is_lost else None,
    )
