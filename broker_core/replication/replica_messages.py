"""What a follower asks its leader, as Kafka's messages: one Fetch for all partitions that follow one broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from broker_core.log.leader_epochs import EpochEnd
from broker_core.protocol.message_builder import build
from broker_core.replication.replication_values import FetchPosition, ReplicaFetchAnswer

_EARLIEST: Final = -2
_LATEST: Final = -1


class PartitionId(NamedTuple):
    """A partition of one topic, not of a later one with its name."""

    topic_id: UUID
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChanges:
    """What a Fetch says of its session: `positions` that are new or have moved, and partitions that are `forgotten`."""

    session_id: int
    epoch: int
    positions: Mapping[PartitionId, FetchPosition]
    forgotten: frozenset[PartitionId]


def replica_fetch_request(
    changes: SessionChanges,
    *,
    replica_id: int,
    broker_epoch: int,
    max_wait_ms: int,
    max_bytes: int,
    partition_max_bytes: int,
) -> Any:
    """Fetch 17."""
    from kio.schema.fetch.v17.request import FetchRequest

    topics: dict[UUID, list[dict[str, Any]]] = {}
    for partition, position in changes.positions.items():
        topics.setdefault(partition.topic_id, []).append(
            {
                "partition": partition.number,
                "current_leader_epoch": position.leader_epoch,
                "fetch_offset": position.fetch_offset,
                "last_fetched_epoch": position.last_fetched_epoch,
                "log_start_offset": position.log_start_offset,
                "partition_max_bytes": partition_max_bytes,
            }
        )
    forgotten: dict[UUID, list[int]] = {}
    for partition in sorted(changes.forgotten):
        forgotten.setdefault(partition.topic_id, []).append(partition.number)
    values = {
        "replica_state": {"replica_id": replica_id, "replica_epoch": broker_epoch},
        "max_wait": timedelta(milliseconds=max_wait_ms),
        "min_bytes": 1,
        "max_bytes": max_bytes,
        "session_id": changes.session_id,
        "session_epoch": changes.epoch,
        "topics": [{"topic_id": topic_id, "partitions": each} for topic_id, each in topics.items()],
        "forgotten_topics_data": [{"topic_id": topic_id, "partitions": each} for topic_id, each in forgotten.items()],
        "rack_id": "",
    }
    return build(FetchRequest, values)


def replica_fetch_answers(response: Any) -> Iterator[tuple[PartitionId, ReplicaFetchAnswer]]:
    """Of each partition that the response names."""
    for topic in response.responses:
        for each in topic.partitions:
            diverging = each.diverging_epoch
            is_diverging = diverging is not None and diverging.epoch >= 0 and diverging.end_offset >= 0
            yield (
                PartitionId(topic.topic_id, each.partition_index),
                ReplicaFetchAnswer(
                    error=each.error_code,
                    diverging=(
                        EpochEnd(leader_epoch=diverging.epoch, end_offset=diverging.end_offset)
                        if is_diverging
                        else None
                    ),
                    high_watermark=each.high_watermark,
                    log_start_offset=each.log_start_offset,
                    records=bytes(each.records or b""),
                ),
            )


def bounds_requests(topic: str, partition: PartitionId, *, replica_id: int, leader_epoch: int) -> list[Any]:
    """Two ListOffsets 7: for the log start and for the log end, not the high watermark, since a replica asks."""
    from kio.schema.list_offsets.v7.request import ListOffsetsRequest

    return [
        build(
            ListOffsetsRequest,
            {
                "replica_id": replica_id,
                "isolation_level": 0,
                "topics": [
                    {
                        "name": topic,
                        "partitions": [
                            {
                                "partition_index": partition.number,
                                "current_leader_epoch": leader_epoch,
                                "timestamp": timestamp,
                            }
                        ],
                    }
                ],
            },
        )
        for timestamp in (_EARLIEST, _LATEST)
    ]


def bound_of(response: Any) -> int | None:
    """The offset; None for an error."""
    (topic,) = response.topics
    (partition,) = topic.partitions
    return None if partition.error_code else int(partition.offset)
