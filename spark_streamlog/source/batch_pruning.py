"""Prunes what a batch query need not read, by the filters that Spark pushed down. No pyspark here, and no rows.

A pruned range has no record that passes the filters, neither when the query is planned nor when it runs: closed
segments never grow, and where the query's end is `latest`, records appended after the planned end are read as without
filters. So a plan that runs a second time sees new records.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from broker_core.cluster import Cluster
from broker_core.model.exceptions import CorruptDataError
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.model.limits import MAX_OFFSET
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.planning.filter_ranges import (
    ColumnFilter,
    Ranges,
    admits,
    intersection,
    key_sets,
    least_timestamp_ms,
    offset_ranges,
    shown,
    union,
    without,
)
from spark_streamlog.planning.offset_limits import EARLIEST, LATEST
from spark_streamlog.planning.offset_range import OffsetRange
from spark_streamlog.source.batch_planner import KeptRanges, plan_batch
from spark_streamlog.source.offset_reader import OffsetReader
from spark_streamlog.source.planned_range import PlannedRange
from spark_streamlog.source.task_plan import share_tasks

Task = tuple[PlannedRange, ...]
"""Ranges of one partition, which one task reads one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruningReport:
    """`bytes_total`: of the batches that the query would have read without its filters."""

    topics: tuple[str, ...]
    bytes_total: int
    bytes_skipped: int
    filters: tuple[ColumnFilter, ...]

    def __str__(self) -> str:
        """For a log line."""
        return (
            f"topic={','.join(self.topics)} bytes_total={self.bytes_total} bytes_skipped={self.bytes_skipped}"
            f" filters={shown(self.filters)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedPlan:
    tasks: list[Task]
    report: PruningReport


def plan_pruned(cluster: Cluster, options: ReadOptions, filters: Sequence[ColumnFilter]) -> PrunedPlan:
    """Raises what `plan_batch` raises. Planning ignores damage in the log: a task that reads it reports it."""
    return _Pruning(cluster, options, filters).plan()


class _Pruning:
    """Of one query."""

    def __init__(self, cluster: Cluster, options: ReadOptions, filters: Sequence[ColumnFilter]) -> None:
        self._cluster = cluster
        self._offsets = OffsetReader(cluster, options)
        self._options = options
        self._filters = tuple(filters)
        self._least_timestamp_ms = least_timestamp_ms(filters)
        self._key_sets = key_sets(filters)
        self._wholes: dict[TopicPartition, OffsetRange] = {}

    def plan(self) -> PrunedPlan:
        planned = plan_batch(self._offsets, self._options, self._keep)
        known = [self._as_known(one) for one in planned]
        sizes_bytes = [self._bytes_of(each) for each in known]
        total_bytes = sum(map(self._bytes_of, self._wholes.values()))
        report = PruningReport(
            topics=tuple(sorted({tp.topic for tp in self._wholes})),
            bytes_total=total_bytes,
            # Ranges that meet in a batch both read it.
            bytes_skipped=max(0, total_bytes - sum(sizes_bytes)),
            filters=self._filters,
        )
        sized = [replace(one, size_bytes=size) for one, size in zip(planned, sizes_bytes, strict=True)]
        tasks = tasks_of(sized, [each.size for each in known], self._options)
        return PrunedPlan(tasks=share_tasks(tasks, self._offsets, self._options), report=report)

    def _keep(self, whole: OffsetRange) -> KeptRanges:
        tp = whole.topic_partition
        self._wholes[tp] = whole
        if not admits(self._filters, tp):
            return KeptRanges(ranges=(), is_end_open=False)
        ranges = offset_ranges(self._filters, (whole.from_offset, whole.until_offset))
        with suppress(CorruptDataError):
            ranges = self._with_keys(tp, self._without_older(tp, ranges))
        return KeptRanges(
            ranges=tuple(OffsetRange(topic_partition=tp, from_offset=a, until_offset=b) for a, b in ranges),
            is_end_open=bool(offset_ranges(self._filters, (whole.until_offset, MAX_OFFSET + 1))),
        )

    def _without_older(self, tp: TopicPartition, ranges: Ranges) -> Ranges:
        """The offsets that remain with a least timestamp. Cut are all before the first record at or above it, and all
        segments whose largest timestamp is below it."""
        least_ms = self._least_timestamp_ms
        if least_ms is None or least_ms < 0 or not ranges:
            return ranges
        # Below the log start the old records are unknown, and above the end there are none yet. Bounds first:
        # what is appended between the two requests is not cut.
        bounds = self._cluster.bounds(tp)
        found = self._cluster.list_offsets({tp: least_ms}, IsolationLevel.READ_UNCOMMITTED)[tp]
        first = bounds.high_watermark if found is None else min(found.offset, bounds.high_watermark)
        ranges = without(ranges, (bounds.log_start_offset, first))
        for segment in self._cluster.describe_segments(tp) if ranges else ():
            if segment.max_timestamp_ms < least_ms:
                start = max(segment.base_offset, bounds.log_start_offset)
                ranges = without(ranges, (start, min(segment.next_offset, bounds.high_watermark)))
        return ranges

    def _with_keys(self, tp: TopicPartition, ranges: Ranges) -> Ranges:
        for keys in self._key_sets:
            with_any = union(
                found
                for key in keys
                for start, end in ranges
                for found in self._cluster.ranges_with_key(tp, key, start, end).ranges
            )
            ranges = intersection(ranges, with_any)
        return ranges

    def _as_known(self, planned: PlannedRange) -> OffsetRange:
        """With open ends replaced by the offsets where they were at planning time."""
        whole = self._wholes[planned.topic_partition]
        return OffsetRange(
            topic_partition=planned.topic_partition,
            from_offset=whole.from_offset if planned.from_offset == EARLIEST else planned.from_offset,
            until_offset=whole.until_offset if planned.until_offset == LATEST else planned.until_offset,
        )

    def _bytes_of(self, offsets: OffsetRange) -> int:
        try:
            return self._offsets.bytes_between(offsets.topic_partition, offsets.from_offset, offsets.until_offset)
        except CorruptDataError:
            return 0


def tasks_of(planned: Sequence[PlannedRange], sizes: Sequence[int], options: ReadOptions) -> list[Task]:
    """As many tasks as without filters, one for each partition, unless minPartitions or maxRecordsPerPartition ask for
    more: then what is left is shared out, and small neighbours stay together. `sizes` are counts of offsets."""
    limit = _largest_task(sizes, options)
    tasks: list[list[PlannedRange]] = []
    taken = 0
    for one, size in zip(planned, sizes, strict=True):
        is_next = bool(tasks) and tasks[-1][-1].topic_partition == one.topic_partition
        if is_next and (limit is None or taken + size <= limit):
            tasks[-1].append(one)
            taken += size
        else:
            tasks.append([one])
            taken = size
    if options.min_partitions is not None and len(tasks) < options.min_partitions:
        return [(one,) for one in planned]
    return [tuple(task) for task in tasks]


def _largest_task(sizes: Sequence[int], options: ReadOptions) -> int | None:
    limits = []
    if options.max_records_per_partition is not None:
        limits.append(options.max_records_per_partition)
    if options.min_partitions is not None:
        limits.append(max(1, sum(sizes) // options.min_partitions))
    return min(limits, default=None)
