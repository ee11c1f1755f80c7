"""Fetches from an object log: planned with the image, read from the objects, planned again if those were replaced."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from broker_core.cluster import FetchedBatches
from broker_core.model.exceptions import CorruptObjectError, ObjectNotFoundError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster.batch_fetcher import BatchFetcher
from broker_core.object_cluster.log_means import LogMeans
from broker_core.object_cluster.object_lookups import bounds_of, partition_of
from broker_core.object_cluster.shared_log import SharedLog
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.partition_image import PartitionImage
from broker_core.object_log.read_plan import PlannedRead, plan_read
from broker_core.staged_writes import FetchPlan

MAX_REPLAN_COUNT: Final = 5
"""How often one fetch is planned again because its objects were removed while it read."""


class ObjectReads:
    """Thread-safe."""

    def __init__(self, means: LogMeans, log: SharedLog, fetcher: BatchFetcher) -> None:
        self._means = means
        self._log = log
        self._fetcher = fetcher

    def fetch(
        self, partition: TopicPartition, from_offset: int, *, max_bytes: int, topic_id: UUID | None
    ) -> FetchedBatches:
        """As `Cluster.fetch`. Known offsets need no look for new commits."""

        def plan(image: LogImage) -> FetchPlan:
            found_id, found = partition_of(image, partition)
            if topic_id not in (None, found_id):
                raise UnknownTopicError(
                    f"Topic '{partition.topic}' with the id {topic_id} does not exist.", topic=partition.topic
                )
            return _plan(partition, found_id, found, from_offset, found.log_end_offset, max_bytes)

        found_plan = self._log.read_known(lambda image: knows(image, partition, from_offset, topic_id), plan)
        return self.fetch_planned(found_plan, from_offset, max_bytes=max_bytes)

    def plan(self, partition: TopicPartition, from_offset: int, until_offset: int) -> FetchPlan:
        """As `PlannedReads.plan_fetches`."""

        def plan(image: LogImage) -> FetchPlan:
            topic_id, found = partition_of(image, partition)
            return _plan(partition, topic_id, found, from_offset, until_offset, None)

        return self._log.read_known(lambda image: knows(image, partition, until_offset - 1), plan)

    def fetch_planned(self, plan: FetchPlan, from_offset: int, *, max_bytes: int) -> FetchedBatches:
        """If objects are missing, the log has the reason: retention, or a replacement longer ago than the grace
        time."""
        for _ in range(MAX_REPLAN_COUNT):
            reads = [PlannedRead(*read) for read in plan.reads]  # type: ignore[arg-type]
            reads = [read for read in reads if read.end_offset > from_offset]
            try:
                found = self._fetcher.fetch(reads, from_offset, max_bytes=max_bytes)
            except ObjectNotFoundError as error:
                missing = error
            else:
                next_offset = found.next_offset if found.buffer else max(from_offset, plan.until_offset)
                return FetchedBatches(buffer=found.buffer, next_offset=next_offset, bounds=plan.bounds)
            again = self._planned_again(plan, from_offset)
            if again.reads == plan.reads:
                break
            plan = again
        raise CorruptObjectError(
            f"{plan.partition}: offsets from {from_offset} on cannot be read: {missing} The log still refers to it.",
            object=missing.fields.get("object"),
        )

    def _planned_again(self, plan: FetchPlan, from_offset: int) -> FetchPlan:
        """According to the current log. Raises OffsetOutOfRangeError, UnknownTopicError."""

        def look(image: LogImage) -> FetchPlan:
            found = image.partition(plan.topic_id, plan.partition.partition)
            if found is None:
                raise UnknownTopicError(
                    f"Topic '{plan.partition.topic}' with the id {plan.topic_id} does not exist.",
                    topic=plan.partition.topic,
                )
            return _plan(plan.partition, plan.topic_id, found, from_offset, plan.until_offset, None)

        return self._log.read(look)


def knows(image: LogImage, partition: TopicPartition, offset: int | None = None, topic_id: UUID | None = None) -> bool:
    """Whether the image has the partition and the offset. New commits could only remove it."""
    topic = image.topic(partition.topic)
    if topic is None or topic_id not in (None, topic.topic_id):
        return False
    found = image.partition(topic.topic_id, partition.partition)
    if found is None:
        return False
    return offset is None or found.log_start_offset <= offset < found.log_end_offset


def _plan(
    partition: TopicPartition,
    topic_id: UUID,
    found: PartitionImage,
    from_offset: int,
    until_offset: int,
    max_bytes: int | None,
) -> FetchPlan:
    bounds = bounds_of(found)
    bounds.require(from_offset, partition)
    until_offset = min(until_offset, bounds.log_end_offset)
    reads = plan_read(found, from_offset, until_offset, max_bytes=max_bytes)
    if max_bytes is not None and reads:
        until_offset = reads[-1].end_offset
    return FetchPlan(
        partition=partition,
        topic_id=topic_id,
        from_offset=from_offset,
        until_offset=until_offset,
        bounds=bounds,
        reads=tuple(tuple(read) for read in reads),
    )
