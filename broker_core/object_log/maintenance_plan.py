"""Plans the maintenance of a partition: retention, merges, compactions. `object_cluster` reads and writes.

Merging turns runs of small ranges into large ones, because each range costs a reader a request and the image a row. A
run is merged if it has MIN_MERGED_RANGE_COUNT ranges and none of them is most of it. So a byte is rewritten each time
its run has grown by half, not each time a small range is appended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from broker_core.log.compaction_plan import CompactionPlan, plan_compaction
from broker_core.log.retention import plan_retention
from broker_core.model.topic_config import TopicConfig
from broker_core.object_log.commit import Change, MoveLogStart, PinOffsets, ReplaceRanges
from broker_core.object_log.data_range import PlacedRange
from broker_core.object_log.log_image import LogImage
from broker_core.object_log.partition_image import PartitionImage, input_digest

MERGED_RANGE_BYTES: Final = 16 * 1024 * 1024
"""The size of a range of a merged object: a reader that begins in the middle reads at most this much."""
MERGED_OBJECT_BYTES: Final = 256 * 1024 * 1024
MIN_MERGED_RANGE_COUNT: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteJob:
    """Ranges to read and replace. `compaction` None: with unchanged records."""

    topic_id: UUID
    topic: str
    partition: int
    inputs: tuple[PlacedRange, ...]
    compaction: CompactionPlan | None = None
    config: TopicConfig

    @property
    def from_offset(self) -> int:
        return self.inputs[0].base_offset

    @property
    def until_offset(self) -> int:
        return self.inputs[-1].end_offset

    @property
    def size_bytes(self) -> int:
        return sum(placed.data.size_bytes for placed in self.inputs)


def plan_log_starts(image: LogImage, now_ms: int) -> tuple[MoveLogStart, ...]:
    """The new log starts by retention.ms and retention.bytes, for every topic, limited by live pins."""
    moves = []
    for topic, number, partition in image.partitions():
        config = TopicConfig.from_stored(topic.configs)
        if not len(partition.ranges) or not config.is_deleted_by_retention:
            continue
        oldest_ms = partition.ranges[0].data.max_timestamp_ms
        is_due = (
            0 <= config.retention_bytes < partition.ranges.size_bytes
            or (config.retention_ms >= 0 and 0 <= oldest_ms < now_ms - config.retention_ms)
        )  # fmt: skip
        if not is_due:
            continue
        plan = plan_retention(
            partition.segments(),
            config=config,
            now_ms=now_ms,
            log_start_offset=partition.log_start_offset,
            high_watermark=partition.log_end_offset,
            pinned_offset=image.pinned_offset(topic.topic_id, number, now_ms),
        )
        if plan is not None and plan.log_start_offset > partition.log_start_offset:
            moves.append(MoveLogStart(topic_id=topic.topic_id, partition=number, offset=plan.log_start_offset))
    return tuple(moves)


def plan_merges(image: LogImage) -> Iterator[RewriteJob]:
    """Runs of small ranges, at most one per partition. The dirty ranges of a compacted topic are left to compaction,
    which rewrites them."""
    for topic, number, partition in image.partitions():
        run = _merge_run(partition)
        if run:
            yield RewriteJob(
                topic_id=topic.topic_id,
                topic=topic.name,
                partition=number,
                inputs=run,
                config=TopicConfig.from_stored(topic.configs),
            )


def plan_compactions(image: LogImage, now_ms: int) -> Iterator[RewriteJob]:
    """Partitions of compacted topics that are due."""
    for topic, number, partition in image.partitions():
        config = TopicConfig.from_stored(topic.configs)
        if not config.is_compacted or partition.clean_offset >= partition.log_end_offset:
            continue
        plan = plan_compaction(
            partition.segments(),
            config=config,
            checkpoint_offset=partition.clean_offset,
            log_start_offset=partition.log_start_offset,
            last_stable_offset=partition.log_end_offset,
            log_end_offset=partition.log_end_offset,
            now_ms=now_ms,
        )
        if plan is not None and plan.is_due:
            first, last = partition.rows_between(partition.log_start_offset, plan.until_offset)
            yield RewriteJob(
                topic_id=topic.topic_id,
                topic=topic.name,
                partition=number,
                inputs=tuple(partition.ranges[row] for row in range(first, last)),
                compaction=plan,
                config=config,
            )


def plan_replacement(
    image: LogImage, job: RewriteJob, outputs: Sequence[PlacedRange], *, clean_until: int | None = None
) -> tuple[Change, ...] | None:
    """The commit that replaces the ranges by the rewritten ones; None if one of the inputs or the topic is gone, or the
    outputs are too old. Ranges appended meanwhile are after the inputs and stay."""
    partition = image.partition(job.topic_id, job.partition)
    if partition is None or not all(image.may_enter(placed.data.object) for placed in outputs):
        return None
    first, last = partition.rows_between(job.from_offset, job.until_offset)
    if tuple(partition.ranges[row] for row in range(first, last)) != job.inputs:
        return None
    return (
        ReplaceRanges(
            topic_id=job.topic_id,
            partition=job.partition,
            from_offset=job.from_offset,
            until_offset=job.until_offset,
            input_digest=input_digest(job.inputs),
            outputs=tuple(outputs),
            clean_until=clean_until,
        ),
    )


def plan_expired_pins(image: LogImage, before_ms: int) -> tuple[PinOffsets, ...]:
    """The removal of pins that expired long ago."""
    return tuple(
        PinOffsets(group_id=group_id, pins=tuple((*place, pin.offset, 0) for place, pin in expired))
        for group_id, pins in image.pins.items()
        if (expired := [(place, pin) for place, pin in pins.items() if pin.until_ms < before_ms])
    )


def _merge_run(partition: PartitionImage) -> tuple[PlacedRange, ...]:
    """The first run of adjacent small ranges that is worth merging."""
    run: list[PlacedRange] = []
    for placed in partition.ranges:
        size_bytes = placed.data.size_bytes
        is_small = size_bytes < MERGED_RANGE_BYTES // 2
        adjoins = not run or run[-1].end_offset == placed.base_offset
        if not is_small or not adjoins or _size(run) + size_bytes > MERGED_OBJECT_BYTES:
            if _is_worth_it(run):
                break
            run = []
        if is_small:
            run.append(placed)
    while run and not _is_worth_it(run):
        # A range that is most of the run stays; the ranges after it may be worth merging.
        run = run[1:] if run[0].data.size_bytes * 2 > _size(run) else []
    return tuple(run)


def _is_worth_it(run: Sequence[PlacedRange]) -> bool:
    if len(run) < MIN_MERGED_RANGE_COUNT:
        return False
    return max(placed.data.size_bytes for placed in run) * 2 <= _size(run)


def _size(run: Sequence[PlacedRange]) -> int:
    return sum(placed.data.size_bytes for placed in run)
