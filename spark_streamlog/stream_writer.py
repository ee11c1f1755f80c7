"""The streaming sink: `df.writeStream.format("streamlog").start(path)`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from spark_streamlog.rows.sink_columns import sink_columns
from spark_streamlog.task_writer import write_at_least_once
from spark_streamlog.write_options import WriteOptions


class StreamlogStreamWriter(DataSourceStreamArrowWriter):
    """Made for each micro-batch in a planning process, and once more in another process for `commit` or `abort`.

    Append and complete mode both append: a log has nothing to replace. (Update mode would too, but Spark refuses it for
    every Python data source; `foreachBatch` is the way round.) Spark counts `numOutputRows` by the rows it hands to the
    tasks, so the progress is right without our doing.

    With at-least-once delivery a task's rows are readable when the task ends; a micro-batch that is repeated after a
    failure writes its rows again.
    """

    def __init__(self, options: WriteOptions, schema: Any) -> None:
        self._options = options
        self._columns = sink_columns(schema, topic_option=options.topic)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return write_at_least_once(self._options, self._columns, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """All rows are durable and readable since their tasks ended."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What tasks have written stays: the promise is at least once."""
