"""AssignReplicasToDirs: a broker with several directories says in which ones its replicas are, as a plan."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_facts import ClusterFacts
from broker_core.controller.partition_change import PartitionWish, plan_partition_change
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.metadata_records import MetadataRecord, PartitionChangeRecord, RegisterBrokerRecord

Placement = tuple[UUID, UUID, int]
"""(directory, topic id, partition)"""


def plan_directory_assignments(
    facts: ClusterFacts, broker: RegisterBrokerRecord, placements: Iterable[Placement]
) -> CoordinatorResult[MetadataRecord, dict[Placement, ErrorCode]]:
    """The reply is an error for each. A replica in a directory that is offline leaves its ISR."""
    records: dict[tuple[UUID, int], PartitionChangeRecord] = {}
    errors: dict[Placement, ErrorCode] = {}
    for placement in placements:
        _, *place = placement
        errors[placement] = error = _error_of(facts, broker.broker_id, placement)
        if error is not ErrorCode.none:
            continue
        if tuple(place) in records:
            errors[placement] = ErrorCode.invalid_request
            continue
        record = _assigned(facts, broker, placement)
        if record is not None:
            records[record.topic_id, record.partition_id] = record
    return CoordinatorResult(records=tuple(records.values()), reply=errors)


def _error_of(facts: ClusterFacts, broker_id: int, placement: Placement) -> ErrorCode:
    _, topic_id, number = placement
    if facts.image.topic_by_id(topic_id) is None:
        return ErrorCode.unknown_topic_id
    state = facts.image.partition(topic_id, number)
    if state is None:
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.none if broker_id in state.replicas else ErrorCode.not_leader_or_follower


def _assigned(facts: ClusterFacts, broker: RegisterBrokerRecord, placement: Placement) -> PartitionChangeRecord | None:
    directory, topic_id, number = placement
    topic, state = facts.image.topic_by_id(topic_id), facts.image.partition(topic_id, number)
    assert topic is not None and state is not None, placement
    is_online = directory in broker.log_dirs

    def is_acceptable(broker_id: int) -> bool:
        return (is_online or broker_id != broker.broker_id) and facts.may_lead(state, broker_id)

    isr = state.isr if is_online else tuple(each for each in state.isr if each != broker.broker_id)
    wish = PartitionWish(isr=isr, directory=(broker.broker_id, directory))
    return plan_partition_change(topic_id, number, state, facts.rules_of(topic.name, state, is_acceptable), wish)
