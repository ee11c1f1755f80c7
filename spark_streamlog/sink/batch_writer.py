"""The batch sink: `df.write.format("streamlog").mode("append").save(path)`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_streamlog.errors import with_conditions
from spark_streamlog.exactly_once.commit_protocol import BatchFacts
from spark_streamlog.options.write_options import WriteOptions
from spark_streamlog.rows.sink_columns import sink_columns
from spark_streamlog.sink.expired_rows_warning import warn_of_expired
from spark_streamlog.sink.planned_sink import plan_batch_write, sink_driver
from spark_streamlog.sink.task_commit_message import expired_of, written_by
from spark_streamlog.sink.task_writer import write_at_least_once, write_exactly_once
from spark_streamlog.sink_conditions import sink_error


class StreamlogBatchWriter(DataSourceArrowWriter):
    """Created on the driver before the job runs, so that wrong options and columns are refused before any task starts.
    Spark sends this object to the tasks, and calls its `commit` or `abort`.

    With exactly-once delivery nothing is readable before the commit, and all rows are when `commit` returns. With
    at-least-once a task's rows are readable when the task ends: `commit` and `abort` do nothing.
    """

    def __init__(self, options: WriteOptions, schema: Any, *, overwrite: bool) -> None:
        if overwrite:
            raise sink_error("STREAMLOG_UNSUPPORTED_SAVE_MODE")
        self._options = options
        self._columns = sink_columns(schema, topic_option=options.topic, formats=options.formats)
        self._planned = plan_batch_write(options)
        self._sink = self._planned.sink

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        if self._sink is None:
            return write_at_least_once(self._options, self._columns, iterator, self._planned)
        return write_exactly_once(self._options, self._columns, iterator, self._planned, self._sink)

    @with_conditions()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All or nothing: raises if a task's transaction is not open any more, and then no row is readable."""
        if self._sink is None:
            warn_of_expired(expired_of(messages), write=None)
            return
        facts = BatchFacts(batch=self._sink.batch, task_count=len(messages))
        driver = sink_driver(self._options.target, self._sink.identity)
        driver.commit(facts, written_by(messages), driver=self._sink.driver)
        warn_of_expired(expired_of(messages), write=self._sink.identity.prefix)

    @with_conditions()
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """With at-least-once, the rows that tasks have written stay."""
        if self._sink is not None:
            driver = sink_driver(self._options.target, self._sink.identity)
            driver.abandon(written_by(messages), driver=self._sink.driver)
