"""The methods of `Cluster` that look up segments, bytes and keys. All only read, and none takes a lock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from broker_core.cluster import KeyRanges, OffsetAndTimestamp, PartitionBounds, SegmentDescription
from broker_core.embedded.open_log import OpenLog
from broker_core.model.identifiers import NO_TIMESTAMP, IsolationLevel, OffsetSpec, TopicPartition
from broker_core.storage.readable_partition import ReadablePartition


class LookupMethods(ABC):
    """A part of `EmbeddedCluster`. `broker_core.cluster.Cluster` documents the methods."""

    @abstractmethod
    def _opened(self) -> OpenLog: ...

    def describe_segments(self, partition: TopicPartition) -> tuple[SegmentDescription, ...]:
        return self._opened().access.read(partition, ReadablePartition.segments)

    def find_offset_within_bytes(
        self, partition: TopicPartition, from_offset: int, until_offset: int, max_bytes: int
    ) -> int:
        return self._opened().access.read(
            partition, lambda store: store.find_offset_within_bytes(from_offset, until_offset, max_bytes)
        )

    def bytes_between(self, partition: TopicPartition, from_offset: int, until_offset: int) -> int:
        return self._opened().access.read(partition, lambda store: store.bytes_between(from_offset, until_offset))

    def ranges_with_key(
        self, partition: TopicPartition, key: bytes | None, from_offset: int, until_offset: int
    ) -> KeyRanges:
        return self._opened().access.read(
            partition, lambda store: store.ranges_with_key(key, from_offset, until_offset)
        )


def find_offset(
    store: ReadablePartition, *, spec: int, isolation: IsolationLevel, on_bounds: Callable[[PartitionBounds], None]
) -> OffsetAndTimestamp | None:
    """One look-up of `Cluster.list_offsets`. `on_bounds` is called with the bounds that the answer is based on."""
    if spec == OffsetSpec.MAX_TIMESTAMP:
        return store.find_max_timestamp()
    bounds = store.bounds()
    on_bounds(bounds)
    if spec == OffsetSpec.EARLIEST:
        return OffsetAndTimestamp(offset=bounds.log_start_offset, timestamp_ms=NO_TIMESTAMP)
    readable_end = bounds.readable_end(isolation)
    if spec == OffsetSpec.LATEST:
        return OffsetAndTimestamp(offset=readable_end, timestamp_ms=NO_TIMESTAMP)
    return store.find_offset_by_timestamp(spec, until_offset=readable_end)
