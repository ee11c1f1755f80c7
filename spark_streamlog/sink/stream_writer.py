"""The streaming sink: `df.writeStream.format("streamlog").start(path)`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from spark_streamlog.checkpoint import input_fingerprint, query_id_of
from spark_streamlog.errors import with_conditions
from spark_streamlog.exactly_once.commit_protocol import BatchFacts
from spark_streamlog.exactly_once.sink_identity import SinkIdentity, query_identity
from spark_streamlog.options.write_options import Delivery, WriteOptions
from spark_streamlog.rows.sink_columns import sink_columns
from spark_streamlog.sink.expired_rows_warning import warn_of_expired
from spark_streamlog.sink.planned_driver import stored_driver
from spark_streamlog.sink.planned_sink import (
    PlannedSink,
    PlannedWrite,
    plan_micro_batch,
    sink_driver,
    sink_of_micro_batch,
)
from spark_streamlog.sink.task_commit_message import expired_of, sink_of_messages, written_by
from spark_streamlog.sink.task_writer import write_at_least_once, write_exactly_once
from spark_streamlog.sink_conditions import sink_error

QUERY_ID_PROPERTY = "sql.streaming.queryId"
BATCH_ID_PROPERTY = "streaming.sql.batchId"


class StreamlogStreamWriter(DataSourceStreamArrowWriter):
    """Created for each micro-batch in a planning process, and once more in another process for `commit` or `abort`.

    Append and complete mode both append: a log has nothing to replace. (Update mode would too, but Spark refuses it for
    every Python data source; use `foreachBatch` instead.) Spark counts `numOutputRows` by the rows it passes to the
    tasks, so the query's progress is right without our help.

    With exactly-once delivery a micro-batch is readable, whole, when `commit` returns, and one that is repeated after a
    failure is not written again. With at-least-once a task's rows are readable when the task ends, and a repeated
    micro-batch writes its rows again.
    """

    def __init__(self, options: WriteOptions, schema: Any, *, is_planning: bool) -> None:
        self._options = options
        self._columns = sink_columns(
            schema, topic_option=options.topic, formats=options.formats, is_planning=is_planning
        )
        # At planning time the tasks of this micro-batch have not started. At commit time they have written, and
        # taking over then would end the transactions that they left open.
        self._planned = plan_micro_batch(options) if is_planning else None

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        planned = self._planned
        assert planned is not None, "tasks get the writer of the process that planned the micro-batch"
        if self._options.delivery is Delivery.AT_LEAST_ONCE:
            return write_at_least_once(self._options, self._columns, iterator, planned)
        return write_exactly_once(self._options, self._columns, iterator, planned, _sink_of_this_task(planned))

    @with_conditions()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Raises if a task's transaction is not open any more; then no row of the batch is readable.

        A batch without rows is decided too: repeated, it writes nothing even if its query returns rows the next time.
        So an older driver detects at every batch, even an empty one, that it is fenced.
        """
        sink = self._sink_of_batch(messages)
        if sink is None:
            warn_of_expired(expired_of(messages), write=self._options.checkpoint_location or "")
            return
        identity, driver = sink
        facts = BatchFacts(
            batch=batchId,
            task_count=len(messages),
            input_fingerprint=input_fingerprint(self._options.checkpoint_location, identity.query_id, batchId),
        )
        sink_driver(self._options.target, identity).commit(facts, written_by(messages), driver=driver)
        warn_of_expired(expired_of(messages), write=identity.prefix)

    @with_conditions()
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """With at-least-once, the rows that tasks have written stay.

        If the driver that planned the batch is unknown, the transactions may belong to a newer driver and must not be
        ended. Those of killed attempts end at the query's next start, or by their timeout.
        """
        sink = self._sink_of_batch(messages)
        if sink is not None:
            identity, driver = sink
            if driver is None and identity.query_id is not None:
                driver = stored_driver(identity.query_id)
            sink_driver(self._options.target, identity).abandon(written_by(messages), driver=driver)

    def _sink_of_batch(self, messages: list[WriterCommitMessage | None]) -> tuple[SinkIdentity, Any] | None:
        """The query, and the token of its planning driver. None: at-least-once, or no task has named the query."""
        if self._options.delivery is Delivery.AT_LEAST_ONCE:
            return None
        planned = sink_of_messages(messages)
        if planned is not None:
            return planned.identity, planned.driver
        query_id = query_id_of(self._options.checkpoint_location)
        return None if query_id is None else (query_identity(query_id), None)


def _sink_of_this_task(planned: PlannedWrite) -> PlannedSink:
    context = TaskContext.get()
    query_id = context.getLocalProperty(QUERY_ID_PROPERTY) if context is not None else None
    batch_id = context.getLocalProperty(BATCH_ID_PROPERTY) if context is not None else None
    try:
        return sink_of_micro_batch(planned, query_id=query_id or "", batch_id=int(batch_id or ""))
    except ValueError:
        raise sink_error(
            "STREAMLOG_UNKNOWN_QUERY",
            found=f"{QUERY_ID_PROPERTY} is {query_id!r}, {BATCH_ID_PROPERTY} is {batch_id!r}",
        ) from None
