"""The batch source for Spark: plans on the driver, reads in tasks."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from broker_core.cluster import Cluster
from spark_streamlog.errors import with_conditions
from spark_streamlog.options.read_options import ReadOptions
from spark_streamlog.planning.filter_ranges import ColumnFilter
from spark_streamlog.source.batch_planner import plan_batch
from spark_streamlog.source.batch_pruning import PruningReport, plan_pruned
from spark_streamlog.source.fetch_plans import with_fetch_plans
from spark_streamlog.source.offset_reader import OffsetReader
from spark_streamlog.source.planned_range import PlannedRange
from spark_streamlog.source.pushed_filters import column_filters, is_pushing_process, keeps_plans_apart, may_push
from spark_streamlog.source.read_task import ReadTask, read_task
from spark_streamlog.source.task_plan import share_tasks
from spark_streamlog.worker.planned_log import open_to_plan
from spark_streamlog.worker.worker_reuse import prepare_worker_for_reuse

logger = logging.getLogger("spark_streamlog")


class StreamlogBatchReader(DataSourceReader):
    """Pickled to the tasks, so it holds only the options."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Called once for each DataFrame, even if it is used several times; see `batch_planner`."""
        with with_conditions(), open_to_plan(self._options.target) as (cluster, log):
            tasks = with_fetch_plans(cluster, self._tasks(cluster))
            return [InputPartition(ReadTask(log=log, ranges=task)) for task in tasks]

    def _tasks(self, cluster: Cluster) -> Sequence[tuple[PlannedRange, ...]]:
        offsets = OffsetReader(cluster, self._options)
        return share_tasks([(one,) for one in plan_batch(offsets, self._options)], offsets, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # For an empty plan Spark creates one partition without a value.
        if partition.value is not None:
            with with_conditions():
                yield from read_task(partition.value, self._options)
        prepare_worker_for_reuse()


class FilteringBatchReader(StreamlogBatchReader):
    """Skips what the filters of the query exclude for certain; see `pushed_filters` for when Spark may use it.

    `report` logs what that saved, once the query is planned.
    """

    report: PruningReport | None = None

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options)
        self._filters: list[ColumnFilter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Returns all of them: Spark evaluates them again on the remaining rows."""
        self._filters = column_filters(filters, self._options.formats.key)
        return filters

    def _tasks(self, cluster: Cluster) -> Sequence[tuple[PlannedRange, ...]]:
        plan = plan_pruned(cluster, self._options, self._filters)
        self.report = plan.report
        _enable_info_logging()
        logger.info("batch query planned: %s", plan.report)
        return plan.tasks


def batch_reader_for(options: ReadOptions) -> StreamlogBatchReader:
    """A reader with `pushFilters` only where Spark calls it and may: elsewhere the method would fail the query."""
    if not is_pushing_process():
        return StreamlogBatchReader(options)
    if may_push(options.push_filters):
        return FilteringBatchReader(options)
    _enable_info_logging()
    logger.info(
        "batch query planned: filters do not narrow its ranges; pushFilters is %s and Spark %s the plans of one "
        "DataFrame apart",
        options.push_filters.value,
        "keeps" if keeps_plans_apart() else "does not keep",
    )
    return StreamlogBatchReader(options)


def _enable_info_logging() -> None:
    """Where Spark collects the logs of its Python processes (spark.sql.pyspark.worker.logging.enabled), only this
    process itself can enable lines below a warning."""
    if "PYSPARK_SPARK_SESSION_UUID" in os.environ and logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
