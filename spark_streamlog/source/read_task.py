"""The ranges of one Spark task: pickled on the driver, read by `read_task`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.rows.joined_batches import joined
from spark_streamlog.source.planned_range import PlannedRange
from spark_streamlog.worker.planned_log import PlannedLog, open_planned_log


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """Ranges that are read one after the other, in the log that the driver planned with."""

    log: PlannedLog | None
    ranges: tuple[PlannedRange, ...]


def read_task(task: ReadTask, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Raises STREAMLOG_LOG_NOT_SHARED, and what `read_ranges` raises."""
    # The driver plans with this module and does not need to import the readers.
    from spark_streamlog.source.range_reader import read_ranges

    cluster = open_planned_log(options.target, task.log)
    yield from joined(read_ranges(cluster, task.ranges, options))
