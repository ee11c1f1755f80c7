"""Where the replicas of partitions are, who leads them and who is in sync, as brokers tell.

DescribeTopicPartitions (Kafka 3.8 and newer, page by page) also tells who may lead without loss when nobody is in
sync (KIP-966); older brokers are asked for Metadata.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.client.broker_errors import broker_error
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.deadline import Deadline
from broker_core.client.metadata_snapshot import NO_LEADER, is_there, metadata_request
from broker_core.model.exceptions import MalformedMessageError, UnknownTopicError, UnsupportedVersionError
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.message_builder import build

_PAGE_PARTITIONS: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlacement:
    """`leader_id` is -1 while there is none. The first of `replicas` is the preferred leader. `eligible_leaders` and
    `last_known_leaders` are None if the broker does not tell."""

    partition: TopicPartition
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    eligible_leaders: tuple[int, ...] | None = None
    last_known_leaders: tuple[int, ...] | None = None

    @property
    def is_offline(self) -> bool:
        return self.leader_id == NO_LEADER

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


def describe_placements(
    router: BrokerRouter, names: Collection[str] | None, deadline: Deadline
) -> list[PartitionPlacement]:
    """Of these topics, or of all, by topic and number; one try. Raises UnknownTopicError."""
    if names is not None and not names:
        return []
    try:
        found = _by_pages(router, names, deadline)
    except UnsupportedVersionError:
        found = _by_metadata(router, names, deadline)
    return sorted(found, key=lambda each: each.partition)


def _by_pages(router: BrokerRouter, names: Collection[str] | None, deadline: Deadline) -> list[PartitionPlacement]:
    from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest

    topics = [{"name": name} for name in sorted(names or ())]
    found: list[PartitionPlacement] = []
    cursor: dict[str, Any] | None = None
    while True:
        values = {"topics": topics, "response_partition_limit": _PAGE_PARTITIONS, "cursor": cursor}
        answer = router.ask_any(build(DescribeTopicPartitionsRequest, values), deadline)
        for topic in answer.topics:
            _require_topic(topic)
            found += (_described(str(topic.name), each) for each in topic.partitions)
        if answer.next_cursor is None:
            return found
        after = {
            "topic_name": answer.next_cursor.topic_name,
            "partition_index": answer.next_cursor.partition_index,
        }
        if after == cursor:
            raise MalformedMessageError(f"DescribeTopicPartitions: the broker stays at {after}")
        cursor = after


def _by_metadata(router: BrokerRouter, names: Collection[str] | None, deadline: Deadline) -> list[PartitionPlacement]:
    answer = router.ask_any(metadata_request(names), deadline)
    for topic in answer.topics:
        _require_topic(topic)
    return [_placement(str(topic.name), each) for topic in answer.topics for each in topic.partitions]


def _require_topic(topic: Any) -> None:
    if topic.error_code == ErrorCode.unknown_topic_or_partition:
        raise UnknownTopicError(f"Topic '{topic.name}' does not exist.", topic=str(topic.name))
    if not is_there(topic):
        raise broker_error(topic.error_code, f"topic {topic.name!r}", topic=str(topic.name))


def _described(topic: str, found: Any) -> PartitionPlacement:
    return _placement(
        topic, found, eligible=found.eligible_leader_replicas or (), last_known=found.last_known_elr or ()
    )


def _placement(
    topic: str, found: Any, *, eligible: Iterable[int] | None = None, last_known: Iterable[int] | None = None
) -> PartitionPlacement:
    return PartitionPlacement(
        partition=TopicPartition(topic, int(found.partition_index)),
        leader_id=int(found.leader_id),
        leader_epoch=int(found.leader_epoch),
        replicas=_ids(found.replica_nodes),
        isr=_ids(found.isr_nodes),
        offline_replicas=_ids(found.offline_replicas),
        eligible_leaders=None if eligible is None else _ids(eligible),
        last_known_leaders=None if last_known is None else _ids(last_known),
    )


def _ids(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(map(int, values))
