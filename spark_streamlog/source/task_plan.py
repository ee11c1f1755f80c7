"""Which ranges of a query share a Spark task.

Spark's Kafka connector creates a task for every range. A Python task costs some 20 ms, so a thousand partitions with
few records each took seconds. The option maxPartitions is the maximum number of tasks. Without it the number depends on
the bytes to read, but is not reduced below twice the cores of this machine, or below eight. Ranges that the user asked
to divide (minPartitions, maxRecordsPerPartition) are merged again only as far as maxPartitions demands.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.planning.task_packing import ESTIMATED_OFFSET_BYTES, pack, task_count
from spark_streamlog.source.offset_reader import OffsetReader
from spark_streamlog.source.planned_range import PlannedRange

_LEAST_TASKS: Final = 8

Ranges = tuple[PlannedRange, ...]


def parallel_task_count() -> int:
    """The executors' cores are not known here; the driver's cores are an estimate."""
    return max(_LEAST_TASKS, 2 * (os.cpu_count() or 1))


def share_tasks(tasks: Sequence[Ranges], offsets: OffsetReader, options: ReadOptions) -> list[Ranges]:
    """The same ranges in at most that many tasks. Their sizes are read only if there may be too many."""
    count = options.max_partitions
    if count is None:
        if options.min_partitions is not None or options.max_records_per_partition is not None:
            return list(tasks)
        at_least = parallel_task_count()
        if len(tasks) <= at_least:
            return list(tasks)
        sizes_bytes = [_bytes_of(task, offsets, options) for task in tasks]
        count = task_count(sum(sizes_bytes), at_least=at_least)
    elif len(tasks) > count:
        sizes_bytes = [_bytes_of(task, offsets, options) for task in tasks]
    if len(tasks) <= count:
        return list(tasks)
    return [tuple(one for place in places for one in tasks[place]) for places in pack(sizes_bytes, count)]


def _bytes_of(task: Ranges, offsets: OffsetReader, options: ReadOptions) -> int:
    return sum(_estimate(one, offsets, options) for one in task)


def _estimate(planned: PlannedRange, offsets: OffsetReader, options: ReadOptions) -> int:
    if planned.size_bytes is not None:
        return planned.size_bytes
    start, end = planned.planned_offsets
    if options.target.brokers is not None:
        return (end - start) * ESTIMATED_OFFSET_BYTES
    return offsets.bytes_between(planned.topic_partition, start, end)
