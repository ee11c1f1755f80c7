"""Topics and partitions are created and deleted, as plans; checks, their order and their texts are Kafka's.

Every plan is of one topic. Raises StreamlogError, whose `error_code` and message are the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.cluster import TopicDescription
from broker_core.controller.cluster_facts import MIN_INSYNC_REPLICAS, ClusterFacts
from broker_core.controller.replica_placement import PlaceableBroker, place_replicas
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.config_resource import ConfigResource
from broker_core.metadata.controller import random_id
from broker_core.metadata.metadata_records import (
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from broker_core.metadata.metadata_version import DIRECTORY_ASSIGNMENT_LEVEL, partition_version
from broker_core.metadata.replica_assignment import refusal_of_assignment
from broker_core.model.exceptions import (
    InvalidPartitionsError,
    InvalidRequestError,
    InvalidTopicNameError,
    RequestRefusedError,
    TopicExistsError,
    UnknownTopicError,
)
from broker_core.model.topic_config import TopicConfig
from broker_core.model.topic_name import CLUSTER_METADATA_TOPIC, validate_topic_name
from broker_core.ports import Entropy

DEFAULT_COUNT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTopic:
    """Counts of -1 are the cluster's defaults. `assignments` are (partition, its replicas) and take the place of both
    counts."""

    name: str
    partition_count: int = DEFAULT_COUNT
    factor: int = DEFAULT_COUNT
    configs: Mapping[str, str]
    assignments: Sequence[tuple[int, tuple[int, ...]]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    topic_id: UUID
    partition_count: int
    factor: int


def plan_topic(
    facts: ClusterFacts, wanted: WantedTopic, *, entropy: Entropy
) -> CoordinatorResult[MetadataRecord, CreatedTopic]:
    _check_name(facts, wanted.name)
    TopicConfig.from_strings(wanted.configs)
    replicas = _assigned(facts, wanted) if wanted.assignments else _placed(facts, wanted, entropy)
    created = CreatedTopic(topic_id=random_id(entropy), partition_count=len(replicas), factor=len(replicas[0]))
    records: list[MetadataRecord] = [TopicRecord(name=wanted.name, topic_id=created.topic_id)]
    records += (
        ConfigRecord(resource_type=ConfigResource.TOPIC, resource_name=wanted.name, name=name, value=value)
        for name, value in wanted.configs.items()
    )
    if MIN_INSYNC_REPLICAS in wanted.configs and facts.has_eligible_leaders:
        records.append(ClearElrRecord(topic_name=wanted.name))
    records += _partition_records(facts, created.topic_id, 0, replicas)
    return CoordinatorResult(records=tuple(records), reply=created)


def plan_more_partitions(
    facts: ClusterFacts,
    name: str,
    total_count: int,
    assignments: Sequence[tuple[int, ...]] | None,
    *,
    entropy: Entropy,
) -> CoordinatorResult[MetadataRecord, None]:
    topic = _topic(facts, name)
    count = topic.partition_count
    if total_count == count:
        raise InvalidPartitionsError(f"Topic already has {count} partition(s).", topic=name)
    if total_count < count:
        raise InvalidPartitionsError(
            f"The topic {name} currently has {count} partition(s); {total_count} would not be an increase.", topic=name
        )
    first = facts.image.partition(topic.topic_id, 0)
    assert first is not None, name
    factor, added = len(first.replicas), total_count - count
    if assignments is None:
        replicas = place_replicas(_usable(facts), partition_count=added, factor=factor, entropy=entropy)
    else:
        if len(assignments) != added:
            raise _bad_assignment(
                f"Attempted to add {added} additional partition(s), but only {len(assignments)} assignment(s) were"
                " specified."
            )
        replicas = [tuple(each) for each in assignments]
        for each in replicas:
            _check_assignment(facts, each, factor)
    for number, each in enumerate(replicas, start=count):
        _require_live(facts, each, number, is_manual=assignments is not None)
    return CoordinatorResult(records=_partition_records(facts, topic.topic_id, count, replicas), reply=None)


def plan_topic_deletion(facts: ClusterFacts, topic_id: UUID) -> CoordinatorResult[MetadataRecord, TopicDescription]:
    """The reply is the topic as it was."""
    topic = facts.image.topic_by_id(topic_id)
    if topic is None:
        raise RequestRefusedError("This server does not host this topic ID.", error_code=ErrorCode.unknown_topic_id)
    return CoordinatorResult(records=(RemoveTopicRecord(topic_id=topic_id),), reply=topic)


def _topic(facts: ClusterFacts, name: str) -> TopicDescription:
    topic = facts.image.topics.get(name)
    if topic is None:
        raise UnknownTopicError("This server does not host this topic-partition.", topic=name)
    return topic


def _check_name(facts: ClusterFacts, name: str) -> None:
    validate_topic_name(name)
    if name == CLUSTER_METADATA_TOPIC:
        raise InvalidRequestError(f"Creation of internal topic {name} is prohibited.", topic=name)
    if name in facts.image.topics:
        raise TopicExistsError(f"Topic '{name}' already exists.", topic=name)
    other = facts.image.topic_that_collides(name)
    if other is not None:
        raise InvalidTopicNameError(f"Topic '{name}' collides with existing topic: {other}", topic=name)


# Replicas


def _placed(facts: ClusterFacts, wanted: WantedTopic, entropy: Entropy) -> list[tuple[int, ...]]:
    if wanted.factor < DEFAULT_COUNT or wanted.factor == 0:
        raise RequestRefusedError(
            "Replication factor must be larger than 0, or -1 to use the default value.",
            error_code=ErrorCode.invalid_replication_factor,
        )
    if wanted.partition_count < DEFAULT_COUNT or wanted.partition_count == 0:
        raise InvalidPartitionsError(
            "Number of partitions was set to an invalid non-positive value.", topic=wanted.name
        )
    defaults = facts.defaults
    count = defaults.partition_count if wanted.partition_count == DEFAULT_COUNT else wanted.partition_count
    factor = defaults.replication_factor if wanted.factor == DEFAULT_COUNT else wanted.factor
    replicas = place_replicas(_usable(facts), partition_count=count, factor=factor, entropy=entropy)
    for number, each in enumerate(replicas):
        _require_live(facts, each, number, is_manual=False)
    return replicas


def _assigned(facts: ClusterFacts, wanted: WantedTopic) -> list[tuple[int, ...]]:
    if wanted.factor != DEFAULT_COUNT or wanted.partition_count != DEFAULT_COUNT:
        what = "replication factor" if wanted.factor != DEFAULT_COUNT else "numPartitions"
        raise InvalidRequestError(f"A manual partition assignment was specified, but {what} was not set to -1.")
    by_number: dict[int, tuple[int, ...]] = {}
    factor: int | None = None
    for number, replicas in wanted.assignments:
        if number in by_number:
            raise _bad_assignment(f"Found multiple manual partition assignments for partition {number}")
        _check_assignment(facts, replicas, factor)
        _require_live(facts, replicas, number, is_manual=True)
        factor = len(replicas)
        by_number[number] = replicas
    if sorted(by_number) != list(range(len(by_number))):
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return [by_number[number] for number in range(len(by_number))]


def _check_assignment(facts: ClusterFacts, replicas: tuple[int, ...], factor: int | None) -> None:
    refusal = refusal_of_assignment(facts.image.registrations.brokers, replicas)
    if refusal is not None:
        raise _bad_assignment(refusal)
    if factor is not None and len(replicas) != factor:
        raise _bad_assignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not"
            f" consistent with previous partitions, which have {factor} replica(s)."
        )


def _require_live(facts: ClusterFacts, replicas: tuple[int, ...], number: int, *, is_manual: bool) -> None:
    if any(facts.is_active(broker_id) for broker_id in replicas):
        return
    if is_manual:
        raise _bad_assignment(
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or in"
            " controlled shutdown."
        )
    raise RequestRefusedError(
        f"Unable to replicate the partition {len(replicas)} time(s): All brokers are currently fenced or in controlled"
        " shutdown.",
        error_code=ErrorCode.invalid_replication_factor,
    )


def _usable(facts: ClusterFacts) -> list[PlaceableBroker]:
    """Not those on their way out, nor those whose directories take no new replicas."""
    return [
        PlaceableBroker(broker_id=broker_id, rack=broker.rack, is_fenced=broker.fenced)
        for broker_id, broker in sorted(facts.image.registrations.brokers.items())
        if not broker.in_controlled_shutdown
        and not (broker.log_dirs and set(broker.log_dirs) <= set(broker.cordoned_log_dirs or ()))
    ]


def _partition_records(
    facts: ClusterFacts, topic_id: UUID, first_number: int, placed: Sequence[tuple[int, ...]]
) -> tuple[PartitionRecord, ...]:
    level, has_directories = facts.level, facts.level >= DIRECTORY_ASSIGNMENT_LEVEL
    records = []
    for number, replicas in enumerate(placed, start=first_number):
        isr = tuple(broker_id for broker_id in replicas if facts.is_active(broker_id))
        records.append(
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=replicas,
                isr=isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=tuple(map(facts.default_directory, replicas)) if has_directories else (),
                version=partition_version(level),
            )
        )
    return tuple(records)


def _bad_assignment(message: str) -> RequestRefusedError:
    return RequestRefusedError(message, error_code=ErrorCode.invalid_replica_assignment)
