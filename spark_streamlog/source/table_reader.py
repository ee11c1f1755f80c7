"""Metadata tables for Spark: `spark.read.format("streamlog").option("table", "lag").load(path)`."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from spark_streamlog.errors import with_conditions
from spark_streamlog.options.table_options import TableOptions
from spark_streamlog.tables.table_rows import read_table, split_scan
from spark_streamlog.wall_clock import wall_clock_ms
from spark_streamlog.worker.planned_log import open_planned_log, open_to_plan


class MetadataTableReader(DataSourceReader):
    """Reads the table again each time its DataFrame is used."""

    def __init__(self, options: TableOptions) -> None:
        self._options = options

    @with_conditions()
    def partitions(self) -> list[InputPartition]:
        with open_to_plan(self._options.target) as (cluster, log):
            return [InputPartition((log, piece)) for piece in split_scan(cluster, self._options.scan)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # For an empty plan Spark creates one partition without a value.
        if partition.value is not None:
            log, piece = partition.value
            with with_conditions():
                yield from read_table(open_planned_log(self._options.target, log), piece, now_ms=wall_clock_ms())
