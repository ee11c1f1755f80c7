"""The streaming source for Spark: one instance plans on the driver, copies of it read in tasks.

A small micro-batch is read by the planning instance, where Spark accepts its rows; see `planning_process`.

Planner and readers are imported at their first use: the query waits for the imports of each Spark process.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from broker_core.cluster import Cluster
from spark_streamlog.errors import with_conditions
from spark_streamlog.open_cluster import known_state, one_look, open_existing, open_for_reading
from spark_streamlog.options.option_reader import MAX_LONG
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.planning.stream_offset import from_checkpoint, to_checkpoint
from spark_streamlog.source.fetch_plans import with_fetch_plans
from spark_streamlog.source.planned_range import PlannedRange
from spark_streamlog.source.read_task import ReadTask, read_task
from spark_streamlog.source.small_batch import read_small_batch
from spark_streamlog.spark_calls import SPARK_CALLS
from spark_streamlog.worker.planned_log import open_to_plan
from spark_streamlog.worker.planning_process import class_that_passes_rows
from spark_streamlog.worker.worker_memory import freeze_objects_of_planning
from spark_streamlog.worker.worker_reuse import prepare_worker_for_reuse

if TYPE_CHECKING:
    from spark_streamlog.source.stream_planner import StreamPlanner


class StreamlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Adapts `StreamPlanner` to Spark's names and types.

    Spark has no composite limit for Python sources, nor a delay with its minimum of rows, so the planner has both: the
    read limit only decides whether the options' limits apply. Trigger.Once replaces it by "all available", and then
    they do not apply.
    """

    def __init__(self, options: ReadOptions, *, has_plain_schema: bool = True) -> None:
        """`has_plain_schema` False: the user's schema has metadata, which rows read while planning would lack."""
        self._options = options
        self._has_plain_schema = has_plain_schema
        self._planner_on_driver: StreamPlanner | None = None
        self._batches: list[pa.RecordBatch] = []

    @with_conditions()
    def initialOffset(self) -> dict[str, Any]:
        with self._planning(is_known=lambda planner: planner.knows_end_after(None)) as planner:
            return to_checkpoint(planner.initial_offset())

    @with_conditions()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        max_offsets = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        begin = from_checkpoint(start)
        with self._planning(is_known=lambda planner: planner.knows_end_after(begin)) as planner:
            end = planner.latest_offset(
                begin,
                max_offsets=None if max_offsets == MAX_LONG else max_offsets,
                is_limited=not isinstance(limit, ReadAllAvailable),
            )
        return to_checkpoint(end)

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        limits = (options.max_offsets_per_trigger, options.min_offsets_per_trigger, options.max_bytes_per_trigger)
        if limits == (None, None, None):
            return ReadAllAvailable()
        return ReadMaxRows(options.max_offsets_per_trigger or MAX_LONG)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        latest = self._planner().reported_latest_offset()
        return to_checkpoint(latest) if latest else None

    @with_conditions()
    def prepareForTriggerAvailableNow(self) -> None:
        with self._planning() as planner:
            planner.prepare_available_now()

    @with_conditions()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        self._rolled_back_rows()
        until = from_checkpoint(end)
        with (
            self._planning(is_known=lambda planner: planner.is_last_end(until)) as planner,
            open_to_plan(self._options.target) as (cluster, log),
        ):
            ranges = planner.plan(from_checkpoint(start), until)
            (planned,) = with_fetch_plans(cluster, [tuple(ranges)])
            tasks = [planned] if self._maybe_pass_rows(cluster, planned) else planner.tasks_of(planned)
        if planned:
            freeze_objects_of_planning()
        return [InputPartition(ReadTask(log=log, ranges=task)) for task in tasks]

    @with_conditions()
    def commit(self, end: dict[str, Any]) -> None:
        self._planner().commit(from_checkpoint(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with with_conditions():
            yield from read_task(partition.value, self._options)
        prepare_worker_for_reuse()

    def __getstate__(self) -> dict[str, Any]:
        # The tasks' copies get only the options; the driver's state stays there.
        return {"_options": self._options, "_has_plain_schema": False, "_planner_on_driver": None, "_batches": []}

    def _maybe_pass_rows(self, cluster: Cluster, planned: Sequence[PlannedRange]) -> bool:
        """Passes the rows to Spark with the plan, if they are few and Spark supports it."""
        wrapper = class_that_passes_rows() if self._has_plain_schema else None
        if wrapper is None:
            return False
        batches = read_small_batch(cluster, planned, self._options)
        if batches is None:
            return False
        self._batches = batches
        self.__class__ = _reader_that_passes_rows(wrapper)  # type: ignore[arg-type]
        return True

    def _rolled_back_rows(self) -> list[pa.RecordBatch]:
        """Turns this back into an ordinary reader for Spark."""
        self.__class__ = StreamlogStreamReader
        batches, self._batches = self._batches, []
        return batches

    @contextmanager
    def _planning(self, is_known: Callable[[StreamPlanner], bool] = lambda planner: False) -> Iterator[StreamPlanner]:
        """With one look at the log; none for what the planner knows."""
        planner = self._planner()
        cluster = open_existing(self._options.target)
        with known_state(cluster) if is_known(planner) else one_look(cluster):
            yield planner

    def _planner(self) -> StreamPlanner:
        if self._planner_on_driver is None:
            from spark_streamlog.source.group_progress import progress_of
            from spark_streamlog.source.offset_reader import OffsetReader
            from spark_streamlog.source.stream_planner import StreamPlanner
            from spark_streamlog.source.topic_memory import memory_of

            # This process belongs to the query, so its log stays open even if triggers are rare.
            SPARK_CALLS.keep_busy()
            cluster = open_for_reading(self._options.target)
            progress = progress_of(cluster, self._options)
            self._planner_on_driver = StreamPlanner(
                OffsetReader(cluster, self._options),
                self._options,
                now_ms=_now_ms,
                progress=progress,
                memories=[each for each in (memory_of(self._options), progress) if each is not None],
            )
        return self._planner_on_driver


@functools.cache
def _reader_that_passes_rows(wrapper: type[Any]) -> type[StreamlogStreamReader]:
    """The class of a reader between a plan with rows and Spark's request for them, which follows at once. At all other
    times it must not have this class: for Spark such a reader has neither limits nor a latest offset to report.
    """

    class RowPassingReader(StreamlogStreamReader, wrapper):  # type: ignore[misc]
        def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[pa.RecordBatch]:
            return iter(self._rolled_back_rows())

    return RowPassingReader


def _now_ms() -> float:
    """Monotonic: a step of the wall clock must not delay a batch."""
    return time.monotonic() * 1000
