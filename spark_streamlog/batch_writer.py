"""The batch sink: `df.write.format("streamlog").mode("append").save(path)`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_streamlog.rows.sink_columns import sink_columns
from spark_streamlog.sink_conditions import sink_error
from spark_streamlog.task_writer import write_at_least_once
from spark_streamlog.write_options import WriteOptions


class StreamlogBatchWriter(DataSourceArrowWriter):
    """Made on the driver before the job runs, so that options and columns are refused before any task starts.

    With at-least-once delivery a task's rows are readable when the task ends: `commit` and `abort` have nothing to do.
    """

    def __init__(self, options: WriteOptions, schema: Any, *, overwrite: bool) -> None:
        if overwrite:
            raise sink_error("STREAMLOG_UNSUPPORTED_SAVE_MODE")
        self._options = options
        self._columns = sink_columns(schema, topic_option=options.topic)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return write_at_least_once(self._options, self._columns, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All rows are durable and readable since their tasks ended."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What tasks have written stays: the promise is at least once."""
