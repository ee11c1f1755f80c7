"""A KIP-848 group as ConsumerGroupDescribe answers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from broker_core.group.consumer.consumer_effects import (
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedTopicPartitions,
)
from broker_core.group.consumer.consumer_group import ConsumerGroup
from broker_core.group.consumer.consumer_member import ConsumerMember
from broker_core.group.consumer.consumer_step import ConsumerWorld
from broker_core.group.topic_view import TopicView


def described_consumer_group(group: ConsumerGroup, world: ConsumerWorld) -> DescribedConsumerGroup:
    """Leaves out partitions of deleted topics."""
    return DescribedConsumerGroup(
        group_id=group.group_id,
        state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target.epoch,
        assignor=group.assignor(group.members.values(), world.settings.assignors[0]),
        members=tuple(_described_member(group, member, world.topics) for member in group.members.values()),
    )


def _described_member(group: ConsumerGroup, member: ConsumerMember, topics: TopicView) -> DescribedConsumerMember:
    held: dict[UUID, set[int]] = {}
    for partitions in (member.assigned, member.pending_revocation):
        for topic_id, epochs in partitions.items():
            held.setdefault(topic_id, set()).update(epochs)
    return DescribedConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.metadata.rack_id,
        member_epoch=member.epoch,
        client_id=member.metadata.client_id,
        client_host=member.metadata.client_host,
        topic_names=tuple(sorted(member.metadata.topic_names)),
        topic_regex=member.metadata.topic_regex,
        assignment=_described_partitions(held, topics),
        target_assignment=_described_partitions(group.targets.get(member.member_id, {}), topics),
        is_classic=member.is_classic,
    )


def _described_partitions(
    by_topic: Mapping[UUID, Iterable[int]], topics: TopicView
) -> tuple[DescribedTopicPartitions, ...]:
    named = ((topics.name_of(topic_id), topic_id, partitions) for topic_id, partitions in by_topic.items())
    return tuple(
        DescribedTopicPartitions(topic_id=topic_id, topic_name=name, partitions=tuple(sorted(partitions)))
        for name, topic_id, partitions in named
        if name is not None
    )
