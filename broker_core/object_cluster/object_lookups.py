"""Look-ups in an object log: offsets by time, bytes between offsets, segments.

Answers from the image cost no request besides the look for new commits. If an answer depends on batches, those of one
range are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar
from uuid import UUID

from broker_core.cluster import KeyRanges, OffsetAndTimestamp, PartitionBounds, SegmentDescription
from broker_core.model.exceptions import InvalidRequestError, UnknownPartitionError, UnknownTopicError
from broker_core.model.identifiers import NO_TIMESTAMP, OffsetSpec, TopicPartition
from broker_core.object_cluster.batch_fetcher import BatchFetcher
from broker_core.object_cluster.range_filters import RangeFilters
from broker_core.object_cluster.shared_log import SharedLog
from broker_core.object_log.data_range import PlacedRange
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.partition_image import PartitionImage
from broker_core.object_log.read_plan import PlannedRead, plan_read
from broker_core.record.batch_reader import iter_headers, records_of

Answer = TypeVar("Answer")


class ObjectLookups:
    """Thread-safe."""

    def __init__(self, log: SharedLog, fetcher: BatchFetcher, filters: RangeFilters, *, url: str) -> None:
        self._log = log
        self._fetcher = fetcher
        self._filters = filters
        self._url = url

    def look(self, partition: TopicPartition, ask: Callable[[PartitionImage], Answer], *, fresh: bool = True) -> Answer:
        """Raises UnknownTopicError, UnknownPartitionError."""
        return self._log.read(lambda image: ask(partition_of(image, partition)[1]), fresh=fresh)

    def list_offsets(
        self, partitions: Mapping[TopicPartition, OffsetSpec | int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        for partition, spec in partitions.items():
            if spec < OffsetSpec.MAX_TIMESTAMP:
                raise InvalidRequestError(f"{partition}: {spec} is neither a timestamp in ms nor an offset spec")

        def ask(image: LogImage) -> list[tuple[TopicPartition, OffsetAndTimestamp | None, PlannedRead | None, int]]:
            return [(tp, *_by_image(partition_of(image, tp)[1], spec)) for tp, spec in partitions.items()]

        answers = {}
        for partition, answer, read, log_start_offset in self._log.read(ask):
            spec = partitions[partition]
            answers[partition] = answer if read is None else self._in_range(read, spec, log_start_offset, partition)
        return answers

    def _in_range(
        self, read: PlannedRead, spec: int, log_start_offset: int, partition: TopicPartition
    ) -> OffsetAndTimestamp | None:
        """The first record of the range at or after the time, or the first with the largest timestamp."""
        data = self._fetcher.read_range(read)
        best: OffsetAndTimestamp | None = None
        for position, header in iter_headers(data):
            least_ms = spec if spec >= 0 else (best.timestamp_ms + 1 if best is not None else 0)
            if header.max_timestamp < least_ms or header.last_offset < log_start_offset:
                continue
            for record in records_of(data, position):
                if record.timestamp_ms < least_ms or record.offset < log_start_offset:
                    continue
                if best is None or record.timestamp_ms > best.timestamp_ms:
                    best = OffsetAndTimestamp(offset=record.offset, timestamp_ms=record.timestamp_ms)
                if spec >= 0:
                    return best
        if best is None and spec >= 0:
            # Compaction or the log start removed the matching record of the range: a later range may have another one.
            following = self.look(partition, lambda found: _from_row(found, spec, read.end_offset), fresh=False)
            return None if following is None else self._in_range(following, spec, log_start_offset, partition)
        return best

    def bytes_between(self, partition: TopicPartition, from_offset: int, until_offset: int) -> int:
        """A range that is only partly between the offsets contributes in proportion to its offsets."""

        def ask(found: PartitionImage) -> int:
            first, last = found.rows_between(from_offset, until_offset)
            total = found.ranges.size_between(first + 1, last - 1)
            # Only the first and the last range may be partly outside.
            for row in {first, last - 1} if first < last else ():
                placed = found.ranges[row]
                inside = min(until_offset, placed.end_offset) - max(from_offset, placed.base_offset)
                total += placed.data.size_bytes * inside // placed.data.offset_count
            return total

        return self.look(partition, ask) if from_offset < until_offset else 0

    def find_offset_within_bytes(
        self, partition: TopicPartition, from_offset: int, until_offset: int, max_bytes: int
    ) -> int:
        """Ends of ranges as long as whole ranges fit. If not even the first fits, its batches are read."""
        reads = self.look(partition, lambda found: plan_read(found, from_offset, until_offset))
        total, reached = 0, None
        for read in reads:
            if reached is None and (read.size_bytes > max_bytes or read.base_offset < from_offset):
                ends = self._fetcher.batch_ends(read, from_offset)
                fitting = [end for end in ends if end[0] <= max_bytes] or ends[:1]
                if fitting and fitting[-1] != ends[-1]:
                    return min(fitting[-1][1], until_offset)
                total, reached = (fitting[-1][0], read.end_offset) if fitting else (0, read.end_offset)
                continue
            if reached is not None and total + read.size_bytes > max_bytes:
                return min(reached, until_offset)
            total += read.size_bytes
            reached = read.end_offset
        return until_offset

    def ranges_with_key(
        self, partition: TopicPartition, key: bytes | None, from_offset: int, until_offset: int
    ) -> KeyRanges:
        """All offsets but those of ranges whose key filter excludes the key. One call for each object with filters,
        in parallel, or none if they were asked before."""

        def ask(found: PartitionImage) -> list[PlacedRange]:
            first, last = found.rows_between(from_offset, until_offset)
            return [found.ranges[row] for row in range(first, last)]

        placed = self.look(partition, ask)
        denied = self._filters.denied([one.data for one in placed], key)
        ranges: list[tuple[int, int]] = []
        skipped_bytes, wanted = 0, from_offset
        for one, is_denied in zip(placed, denied, strict=True):
            if not is_denied:
                continue
            start, end = max(one.base_offset, from_offset), min(one.end_offset, until_offset)
            if wanted < start:
                ranges.append((wanted, start))
            wanted = end
            skipped_bytes += one.data.size_bytes * (end - start) // one.data.offset_count
        if wanted < until_offset:
            ranges.append((wanted, until_offset))
        return KeyRanges(ranges=tuple(ranges), skipped_bytes=skipped_bytes)

    def describe_segments(self, partition: TopicPartition) -> tuple[SegmentDescription, ...]:
        """A segment is a range. None of them is written to; the last one is still called active."""

        def ask(found: PartitionImage) -> tuple[SegmentDescription, ...]:
            count = len(found.ranges)
            return tuple(
                SegmentDescription(
                    base_offset=placed.base_offset,
                    next_offset=found.ranges[row + 1].base_offset if row + 1 < count else found.log_end_offset,
                    size_bytes=placed.data.size_bytes,
                    max_timestamp_ms=placed.data.max_timestamp_ms,
                    is_active=row + 1 == count,
                    path=f"{self._url}/{placed.data.object}@{placed.data.position}",
                )
                for row, placed in enumerate(found.ranges)
            )

        return self.look(partition, ask)


def partition_of(image: LogImage, partition: TopicPartition) -> tuple[UUID, PartitionImage]:
    topic = image.topic(partition.topic)
    if topic is None:
        raise UnknownTopicError(f"Topic '{partition.topic}' does not exist.", topic=partition.topic)
    found = image.partition(topic.topic_id, partition.partition)
    if found is None:
        raise UnknownPartitionError(
            f"Partition {partition.partition} of topic '{partition.topic}' does not exist; it has the partitions 0 to"
            f" {topic.partition_count - 1}.",
            topic=partition.topic,
            partition=partition.partition,
        )
    return topic.topic_id, found


def bounds_of(partition: PartitionImage) -> PartitionBounds:
    """There are no open transactions: the three upper bounds are equal."""
    return PartitionBounds(
        log_start_offset=partition.log_start_offset,
        last_stable_offset=partition.log_end_offset,
        high_watermark=partition.log_end_offset,
        log_end_offset=partition.log_end_offset,
    )


def _by_image(partition: PartitionImage, spec: int) -> tuple[OffsetAndTimestamp | None, PlannedRead | None, int]:
    """(answer, or else the range that has it, log start)."""
    start = partition.log_start_offset
    if spec == OffsetSpec.EARLIEST:
        return OffsetAndTimestamp(offset=start, timestamp_ms=NO_TIMESTAMP), None, start
    if spec == OffsetSpec.LATEST:
        return OffsetAndTimestamp(offset=partition.log_end_offset, timestamp_ms=NO_TIMESTAMP), None, start
    if spec == OffsetSpec.MAX_TIMESTAMP:
        row = partition.ranges.row_with_largest_timestamp()
        return None, None if row is None else _read_of(partition, row), start
    return None, _from_row(partition, spec, start), start


def _from_row(partition: PartitionImage, timestamp_ms: int, from_offset: int) -> PlannedRead | None:
    row = partition.ranges.first_row_at_or_after(timestamp_ms, partition.ranges.find(from_offset))
    return None if row is None else _read_of(partition, row)


def _read_of(partition: PartitionImage, row: int) -> PlannedRead:
    placed = partition.ranges[row]
    (read,) = plan_read(partition, placed.base_offset, placed.base_offset + 1)
    return read
