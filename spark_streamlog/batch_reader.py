"""The batch source for Spark: plans on the driver, reads in tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_streamlog.batch_planner import plan_batch
from spark_streamlog.errors import with_conditions
from spark_streamlog.offset_reader import OffsetReader
from spark_streamlog.open_cluster import open_for_reading
from spark_streamlog.range_reader import read_range
from spark_streamlog.read_options import ReadOptions


class StreamlogBatchReader(DataSourceReader):
    """Pickled to the tasks, so it holds nothing but the options."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Called once for a DataFrame, however often it is used; see `batch_planner`."""
        with with_conditions():
            offsets = OffsetReader(open_for_reading(self._options.target), self._options)
            return [InputPartition(planned) for planned in plan_batch(offsets, self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes one partition without a value of an empty plan.
        if partition.value is not None:
            with with_conditions():
                yield from read_range(open_for_reading(self._options.target), partition.value, self._options)
