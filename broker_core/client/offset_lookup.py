"""Looks up offsets of partitions: by spec, by time, and their bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from broker_core.client.broker_errors import broker_error, is_worth_a_retry
from broker_core.client.broker_router import BrokerRouter
from broker_core.client.deadline import Deadline
from broker_core.client.wire_values import numbers_by_topic
from broker_core.cluster import OffsetAndTimestamp, PartitionBounds
from broker_core.model.exceptions import InvalidRequestError, StreamlogError
from broker_core.model.identifiers import NO_TIMESTAMP, IsolationLevel, OffsetSpec, TopicPartition

_CONSUMER = BrokerId(-1)


class OffsetLookup:
    """`Cluster` documents the methods. The log end is the high watermark: brokers do not return more."""

    def __init__(self, router: BrokerRouter) -> None:
        self._router = router

    def list_offsets(
        self, partitions: Mapping[TopicPartition, OffsetSpec | int], isolation: IsolationLevel
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        for partition, spec in partitions.items():
            if spec < OffsetSpec.MAX_TIMESTAMP:
                raise InvalidRequestError(f"{partition}: {spec} is neither a timestamp in ms nor an offset spec")
        found: dict[TopicPartition, OffsetAndTimestamp | None] = {}

        def attempt(deadline: Deadline) -> None:
            # Partitions that were answered are not requested again.
            missing = [partition for partition in partitions if partition not in found]
            error: StreamlogError | None = None
            for node_id, of_node in self._router.by_leader(missing, deadline).items():
                request = _request({partition: partitions[partition] for partition in of_node}, isolation)
                (answer,) = self._router.ask_node(node_id, [request], deadline)
                for partition, entry in _entries(answer):
                    if entry.error_code == ErrorCode.none:
                        found[partition] = _offset_of(entry, partitions[partition])
                        continue
                    refusal = broker_error(entry.error_code, f"list offsets of {partition}")
                    if error is None or not is_worth_a_retry(refusal):
                        error = refusal
            if error is not None:
                raise error

        if partitions:
            self._router.run("list offsets", attempt)
        return {partition: found[partition] for partition in partitions}

    def bounds(self, partition: TopicPartition) -> PartitionBounds:
        """Requested in ascending order, one after the other, so the bounds are consistent under concurrent writes."""
        return self._router.run(f"the bounds of {partition}", lambda deadline: self.try_bounds(partition, deadline))

    def try_bounds(self, partition: TopicPartition, deadline: Deadline) -> PartitionBounds:
        """One try."""
        leader = self._router.leader_of(partition, deadline)
        questions = (
            (OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED),
            (OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED),
            (OffsetSpec.LATEST, IsolationLevel.READ_UNCOMMITTED),
        )
        requests = [_request({partition: spec}, isolation) for spec, isolation in questions]
        offsets = []
        for answer in self._router.ask_node(leader, requests, deadline):
            entry = dict(_entries(answer))[partition]
            if entry.error_code != ErrorCode.none:
                raise broker_error(entry.error_code, f"the bounds of {partition}")
            offsets.append(entry.offset)
        log_start, last_stable, high_watermark = offsets
        return PartitionBounds(
            log_start_offset=log_start,
            last_stable_offset=max(log_start, last_stable),
            high_watermark=max(log_start, last_stable, high_watermark),
            log_end_offset=max(log_start, last_stable, high_watermark),
        )


def _request(specs: Mapping[TopicPartition, OffsetSpec | int], isolation: IsolationLevel) -> Any:
    from kio.schema.list_offsets.v7 import request as schema

    return schema.ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=i8(isolation),
        topics=tuple(
            schema.ListOffsetsTopic(
                name=TopicName(topic),
                partitions=tuple(
                    schema.ListOffsetsPartition(
                        partition_index=i32(number), timestamp=i64(specs[TopicPartition(topic, number)])
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in numbers_by_topic(specs).items()
        ),
    )


def _entries(answer: Any) -> Iterable[tuple[TopicPartition, Any]]:
    for topic in answer.topics:
        for entry in topic.partitions:
            yield TopicPartition(topic.name, entry.partition_index), entry


def _offset_of(entry: Any, spec: OffsetSpec | int) -> OffsetAndTimestamp | None:
    """A broker returns -1 if there is no such record."""
    if entry.offset < 0:
        return None
    is_by_time = spec >= 0 or spec == OffsetSpec.MAX_TIMESTAMP
    return OffsetAndTimestamp(offset=entry.offset, timestamp_ms=entry.timestamp if is_by_time else NO_TIMESTAMP)
