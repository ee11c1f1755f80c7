"""Fetches from an object log: planned with the image, read from the objects, planned again if those were replaced.

A task reads by a plan that it was given and does not load the image. Only where an object of the plan is missing, or
the plan ends before the task's range does, it loads the image and looks.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from broker_core.cluster import FetchedBatches, PartitionBounds
from broker_core.model.exceptions import CorruptObjectError, ObjectNotFoundError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster.batch_fetcher import BatchFetcher, FetchedRanges
from broker_core.object_cluster.object_lookups import bounds_of, partition_of
from broker_core.object_cluster.shared_log import SharedLog
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.partition_image import PartitionImage
from broker_core.object_log.read_plan import (
    MAX_PLANNED_READ_COUNT,
    PlannedRead,
    decode_reads,
    encode_reads,
    plan_fetch_steps,
    plan_read,
)
from broker_core.staged_writes import FetchPlan, FetchStep

MAX_REPLAN_COUNT: Final = 5
"""How often one fetch is planned again because its objects were removed while it read."""
_KEPT_REPLACEMENT_COUNT: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Located:
    """The ranges of a partition's offsets [from_offset, until_offset), and the partition's bounds at that time."""

    partition: TopicPartition
    topic_id: UUID
    from_offset: int
    until_offset: int
    bounds: PartitionBounds
    reads: tuple[PlannedRead, ...]

    def answer(self, found: FetchedRanges, from_offset: int) -> FetchedBatches:
        next_offset = found.next_offset if found.buffer else max(from_offset, self.until_offset)
        return FetchedBatches(buffer=found.buffer, next_offset=next_offset, bounds=self.bounds)


class ObjectReads:
    """Thread-safe."""

    def __init__(self, log: SharedLog, fetcher: BatchFetcher) -> None:
        self._log = log
        self._fetcher = fetcher
        self._lock = threading.Lock()
        self._replacements: OrderedDict[bytes, _Located] = OrderedDict()
        """By the encoded reads of a plan whose objects were gone: where its offsets are instead."""

    def fetch(
        self, partition: TopicPartition, from_offset: int, *, max_bytes: int, topic_id: UUID | None
    ) -> FetchedBatches:
        """As `Cluster.fetch`. Known offsets need no look for new commits."""

        def locate(image: LogImage) -> _Located:
            found_id, found = partition_of(image, partition)
            if topic_id not in (None, found_id):
                raise UnknownTopicError(
                    f"Topic '{partition.topic}' with the id {topic_id} does not exist.", topic=partition.topic
                )
            return _locate(partition, found_id, found, from_offset, found.log_end_offset, max_bytes)

        located = self._log.read_known(lambda image: knows(image, partition, from_offset, topic_id), locate)
        return self._read(located, from_offset, max_bytes)[0]

    def plan(self, partition: TopicPartition, from_offset: int, until_offset: int) -> FetchPlan:
        """As `PlannedReads.plan_fetches`."""

        def plan(image: LogImage) -> FetchPlan:
            topic_id, found = partition_of(image, partition)
            located = _locate(partition, topic_id, found, from_offset, until_offset)
            return FetchPlan(
                partition=partition,
                topic_id=topic_id,
                from_offset=from_offset,
                until_offset=located.until_offset,
                bounds=located.bounds,
                commit_number=image.number,
                size_bytes=sum(read.size_bytes for read in located.reads),
                reads=encode_reads(located.reads),
            )

        return self._log.read_known(lambda image: knows(image, partition, until_offset - 1), plan)

    def is_current(self, plan: FetchPlan) -> bool:
        return not self._log.has_commit_after(plan.commit_number)

    def fetch_steps(
        self, plan: FetchPlan, from_offset: int, until_offset: int, *, max_bytes: int, ahead_bytes: int
    ) -> list[FetchStep]:
        """As `PlannedReads.fetch_steps`."""
        reads = self._of_plan(plan, from_offset).reads
        return plan_fetch_steps(reads, from_offset, until_offset, max_bytes=max_bytes, ahead_bytes=ahead_bytes)

    def fetch_planned(self, plan: FetchPlan, from_offset: int, *, max_bytes: int) -> FetchedBatches:
        """If objects are missing, the log has the reason: retention, or a replacement longer ago than the grace
        time."""
        given = self._of_plan(plan, from_offset)
        answer, used = self._read(given, from_offset, max_bytes)
        if used is not given:
            with self._lock:
                self._replacements[plan.reads] = used
                while len(self._replacements) > _KEPT_REPLACEMENT_COUNT:
                    self._replacements.popitem(last=False)
        return answer

    def fetch_several_planned(self, plans: Sequence[FetchPlan], *, max_bytes: int) -> list[FetchedBatches | None]:
        """As `PlannedReads.fetch_several_planned`."""
        located = [self._of_plan(plan, plan.from_offset) for plan in plans]
        wanted = [(each.reads, plan.from_offset) for each, plan in zip(located, plans, strict=True)]
        try:
            found = self._fetcher.fetch_several(wanted, max_bytes=max_bytes)
        except ObjectNotFoundError:
            return [None] * len(plans)
        return [
            None if one is None else each.answer(one, plan.from_offset)
            for one, each, plan in zip(found, located, plans, strict=True)
        ]

    def _of_plan(self, plan: FetchPlan, from_offset: int) -> _Located:
        with self._lock:
            replaced = self._replacements.get(plan.reads)
        # A replacement begins where the objects were missed. A task that is run again begins before it.
        if replaced is not None and replaced.from_offset <= from_offset:
            return replaced
        return _Located(
            partition=plan.partition,
            topic_id=plan.topic_id,
            from_offset=plan.from_offset,
            until_offset=plan.until_offset,
            bounds=plan.bounds,
            reads=decode_reads(plan.reads),
        )

    def _read(self, located: _Located, from_offset: int, max_bytes: int) -> tuple[FetchedBatches, _Located]:
        """The answer, and where it was found in the end."""
        for _ in range(MAX_REPLAN_COUNT):
            try:
                found = self._fetcher.fetch(located.reads, from_offset, max_bytes=max_bytes)
            except ObjectNotFoundError as error:
                missing = error
            else:
                return located.answer(found, from_offset), located
            again = self._located_again(located, from_offset)
            if again.reads == located.reads:
                break
            located = again
        raise CorruptObjectError(
            f"{located.partition}: offsets from {from_offset} on cannot be read: {missing} The log still refers to it.",
            object=missing.fields.get("object"),
        )

    def _located_again(self, located: _Located, from_offset: int) -> _Located:
        """According to the current log. Raises OffsetOutOfRangeError, UnknownTopicError."""

        def look(image: LogImage) -> _Located:
            found = image.partition(located.topic_id, located.partition.partition)
            if found is None:
                raise UnknownTopicError(
                    f"Topic '{located.partition.topic}' with the id {located.topic_id} does not exist.",
                    topic=located.partition.topic,
                )
            return _locate(located.partition, located.topic_id, found, from_offset, located.until_offset)

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


def _locate(
    partition: TopicPartition,
    topic_id: UUID,
    found: PartitionImage,
    from_offset: int,
    until_offset: int,
    max_bytes: int | None = None,
) -> _Located:
    """Less than up to `until_offset` if that is more than `max_bytes` or MAX_PLANNED_READ_COUNT."""
    bounds = bounds_of(found)
    bounds.require(from_offset, partition)
    until_offset = min(until_offset, bounds.log_end_offset)
    reads = plan_read(found, from_offset, until_offset, max_bytes=max_bytes, max_count=MAX_PLANNED_READ_COUNT)
    if reads and (max_bytes is not None or len(reads) == MAX_PLANNED_READ_COUNT):
        until_offset = min(until_offset, reads[-1].end_offset) if max_bytes is None else reads[-1].end_offset
    return _Located(
        partition=partition,
        topic_id=topic_id,
        from_offset=from_offset,
        until_offset=until_offset,
        bounds=bounds,
        reads=reads,
    )
