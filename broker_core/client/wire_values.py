"""Converts our values to the types of kio's schemas, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from broker_core.client.deadline import Deadline
from broker_core.cluster import GroupOffset
from broker_core.model.identifiers import TopicPartition

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MAX_INT32: Final = 2**31 - 1


def duration(ms: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=max(0, min(ms, _MAX_INT32))))


def remaining(deadline: Deadline, at_most_ms: int) -> i32Timedelta:
    """The timeout that a request gives the broker."""
    return duration(min(at_most_ms, int(deadline.remaining_seconds * 1000)))


def milliseconds(value: datetime | timedelta | None) -> int:
    """A time since 1970 or a duration; -1 for none."""
    if value is None:
        return -1
    return (value - _EPOCH if isinstance(value, datetime) else value) // _MILLISECOND


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers grouped by topic, as most messages have them."""
    found: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        found.setdefault(partition.topic, []).append(partition.partition)
    return found


def committed_offsets(
    schema: Any,
    kind: str,
    offsets: Mapping[TopicPartition, GroupOffset],
    topic_ids: Mapping[str, UUID] | None = None,
) -> tuple[Any, ...]:
    """The topics of a request that commits offsets. `schema`: the module of its message, `kind`: its class. With
    `topic_ids` the topics have ids in place of names."""
    new_topic, new_partition = getattr(schema, f"{kind}Topic"), getattr(schema, f"{kind}Partition")
    return tuple(
        new_topic(
            **({"name": TopicName(topic)} if topic_ids is None else {"topic_id": topic_ids[topic]}),
            partitions=tuple(
                new_partition(
                    partition_index=i32(number),
                    committed_offset=i64(offsets[TopicPartition(topic, number)].offset),
                    committed_leader_epoch=i32(offsets[TopicPartition(topic, number)].leader_epoch),
                    committed_metadata=offsets[TopicPartition(topic, number)].metadata,
                )
                for number in numbers
            ),
        )
        for topic, numbers in numbers_by_topic(offsets).items()
    )
