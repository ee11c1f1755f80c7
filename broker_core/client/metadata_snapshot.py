"""What a client knows of a cluster: its brokers, and the topics that it asked about, with their leaders."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.model.client_settings import BrokerAddress

if TYPE_CHECKING:
    from kio.schema.metadata.v12.request import MetadataRequest
    from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

NO_LEADER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """`leader_id` is -1 while there is none."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """A topic as brokers know it. Partitions are numbered from 0 without gaps."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]

    @property
    def leaderless(self) -> frozenset[int]:
        """The numbers of the partitions without a leader."""
        return frozenset(number for number, partition in enumerate(self.partitions) if partition.leader_id == NO_LEADER)

    @property
    def has_all_leaders(self) -> bool:
        return not self.leaderless


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSnapshot:
    """`topics` holds what was asked about; `errors` what was wrong with a topic in the newest answer about it."""

    cluster_id: str | None = None
    controller_id: int = NO_LEADER
    brokers: Mapping[int, BrokerAddress] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    errors: Mapping[str, ErrorCode] = field(default_factory=dict)


def metadata_request(names: Collection[str] | None) -> MetadataRequest:
    """None: all topics. Nothing is created by asking."""
    from kio.schema.metadata.v12 import request as schema
    from kio.schema.types import TopicName

    topics = None
    if names is not None:
        topics = tuple(schema.MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in sorted(set(names)))
    return schema.MetadataRequest(
        topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


def renewed(view: MetadataSnapshot, answer: MetadataResponse) -> MetadataSnapshot:
    """The view after an answer; topics that it says nothing about stay."""
    named = [(str(topic.name), topic) for topic in answer.topics if topic.name is not None]
    found = {name: topic_view(topic) for name, topic in named if is_there(topic)}
    errors = {name: topic.error_code for name, topic in named if not is_there(topic)}
    return replace(
        view,
        cluster_id=answer.cluster_id,
        controller_id=answer.controller_id,
        brokers={broker.node_id: BrokerAddress(host=broker.host, port=broker.port) for broker in answer.brokers},
        topics={name: topic for name, topic in view.topics.items() if name not in errors} | found,
        errors={name: code for name, code in view.errors.items() if name not in found} | errors,
    )


def topic_view(topic: MetadataResponseTopic) -> TopicMetadata:
    """A partition that the answer leaves out, as a faulty broker might, has no leader."""
    by_number: dict[int, MetadataResponsePartition] = {
        partition.partition_index: partition for partition in topic.partitions
    }
    count = max(by_number, default=-1) + 1
    count = count if count <= 2 * len(by_number) else len(by_number)
    return TopicMetadata(
        name=str(topic.name),
        topic_id=topic.topic_id or UUID(int=0),
        is_internal=topic.is_internal,
        partitions=tuple(
            PartitionMetadata(leader_id=found.leader_id, leader_epoch=found.leader_epoch)
            if (found := by_number.get(number)) is not None
            else PartitionMetadata(leader_id=NO_LEADER, leader_epoch=-1)
            for number in range(count)
        ),
    )


def is_there(topic: MetadataResponseTopic) -> bool:
    """A topic whose partitions have no leaders yet is there."""
    return topic.error_code in (ErrorCode.none, ErrorCode.leader_not_available)
