"""The partitions of a waiting fetch: whether they may have enough bytes for it, without reading them.

At each change of one of them, its replica tells how many bytes were appended since the fetch last read. Where counting
is not enough (the topic was deleted or recreated, records were deleted, records blocked by an open transaction became
readable) the fetch has to read. Reading each time would cost a fetch that waits for 50 MB all of them at each append.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from broker_core.broker.partition.replica import Replica
from broker_core.cluster import PartitionBounds
from broker_core.model.exceptions import StreamlogError
from broker_core.model.identifiers import TopicPartition


class AwaitedPartitions:
    """For one fetch. `missing_bytes`: how much more its partitions must have; reset whenever it has read them."""

    def __init__(
        self,
        replica_of: Callable[[TopicPartition], Replica],
        wanted: Iterable[tuple[TopicPartition, int]],
        readable_end: Callable[[PartitionBounds], int],
        *,
        missing_bytes: int,
    ) -> None:
        """`wanted`: readable partitions with their fetch offsets; `readable_end`: where a log ends for the reader."""
        self._replica_of = replica_of
        self._readable_end = readable_end
        self._missing_bytes = missing_bytes
        self._awaited = {partition: _Awaited(from_offset, replica_of(partition)) for partition, from_offset in wanted}

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._awaited)

    def is_worth_a_look(self, partition: TopicPartition) -> bool:
        """The partition changed: whether the fetch may have enough now, or must read for another reason."""
        awaited = self._awaited[partition]
        try:
            replica = self._replica_of(partition)
        except StreamlogError:
            return True
        bounds, before = replica.bounds, awaited.bounds
        if replica is not awaited.replica or awaited.from_offset < bounds.log_start_offset:
            return True
        end_before = self._readable_end(before)
        if self._readable_end(bounds) == end_before:
            return False
        if end_before < before.log_end_offset:
            return True  # records blocked by a transaction were counted too early, or not at all
        self._missing_bytes -= replica.appended_bytes - awaited.appended_bytes
        self._awaited[partition] = _Awaited(awaited.from_offset, replica)
        return self._missing_bytes <= 0


class _Awaited:
    """A partition as of the last read."""

    __slots__ = ("appended_bytes", "bounds", "from_offset", "replica")

    def __init__(self, from_offset: int, replica: Replica) -> None:
        self.from_offset = from_offset
        self.replica = replica
        self.bounds = replica.bounds
        self.appended_bytes = replica.appended_bytes
