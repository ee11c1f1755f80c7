"""One task of a write, batch or stream: appends its Arrow batches to the log, durable when it returns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final, cast

from pyspark import TaskContext

from broker_core.cluster import Cluster, TopicDescription
from broker_core.record.expired_rows import ExpiredRows
from broker_core.staged_writes import StagedWrites, StagingPlan
from broker_core.topic_producer import BatchTarget, ProducerTransaction, TopicProducer, describe_or_create
from spark_streamlog.errors import with_conditions
from spark_streamlog.exactly_once.steps import Step, log_step
from spark_streamlog.open_cluster import ObjectLog
from spark_streamlog.options.write_options import WriteOptions
from spark_streamlog.rows.sink_columns import SinkColumns
from spark_streamlog.rows.sink_rows import SinkRows
from spark_streamlog.sink.commit_sides import task_side
from spark_streamlog.sink.planned_sink import PlannedSink, PlannedWrite
from spark_streamlog.sink.task_commit_message import TaskCommitMessage
from spark_streamlog.wall_clock import wall_clock_ms
from spark_streamlog.worker.planned_log import open_planned_log
from spark_streamlog.worker.worker_reuse import prepare_worker_for_reuse

LINGER_SECONDS: Final = 1.0
"""The longest time that slow rows are gathered, where readers may see them at once."""


@with_conditions()
def write_at_least_once(
    options: WriteOptions, columns: SinkColumns, batches: Iterator[Any], planned: PlannedWrite
) -> TaskCommitMessage:
    """Appends the rows with an idempotent producer of the task's own. The rows of a failed task may stay.

    Raises STREAMLOG_LOG_NOT_SHARED where the driver's log is not.
    """
    cluster = open_planned_log(options.target, planned.log)
    if isinstance(cluster, StagedWrites):
        writing = _upload_and_commit(cast(ObjectLog, cluster), options, columns, batches, planned.staging)
    else:
        writing = _Writing(cluster, options, columns, None)
        for _ in writing.write(batches, linger_s=LINGER_SECONDS):
            pass
    prepare_worker_for_reuse()
    return TaskCommitMessage(row_count=writing.row_count, expired=writing.expired)


def _upload_and_commit(
    log: ObjectLog,
    options: WriteOptions,
    columns: SinkColumns,
    batches: Iterator[Any],
    staging: StagingPlan | None,
) -> _Writing:
    """The task commits its own upload: one object and one commit, where one append per round would make many. Returns
    what is written."""
    upload = log.stage(staging)
    try:
        writing = _Writing(log, options, columns, staging, target=upload)
        for _ in writing.write(batches):
            pass
        staged = upload.finish()
    except BaseException:
        upload.abort()
        raise
    log.commit_staged([staged], plan=staging)
    return writing


@with_conditions()
def write_exactly_once(
    options: WriteOptions, columns: SinkColumns, batches: Iterator[Any], planned: PlannedWrite, sink: PlannedSink
) -> TaskCommitMessage:
    """Writes the rows so that the driver can commit them with those of the other tasks: see `commit_protocol`.

    Raises STREAMLOG_LOG_NOT_SHARED where the driver's log is not.
    """
    context = TaskContext.get()
    cluster = open_planned_log(options.target, planned.log)
    side = task_side(
        cluster,
        sink.identity,
        planned.staging,
        task=context.partitionId() if context is not None else 0,
        attempt=context.attemptNumber() if context is not None else 0,
        timeout_ms=options.transaction_timeout_ms,
    )
    if not side.may_write(sink.batch, sink.driver):
        return TaskCommitMessage(row_count=sum(batch.num_rows for batch in batches), sink=sink)
    writing = _Writing(cluster, options, columns, planned.staging, target=side.target, transaction=side.transaction)
    with side.writing():
        for _ in writing.write(batches):
            log_step(Step.TASK_APPENDED, **side.ids)
        written = side.finish()
    log_step(Step.TASK_FLUSHED, **side.ids, rows=writing.row_count)
    prepare_worker_for_reuse()
    return TaskCommitMessage(row_count=writing.row_count, sink=sink, written=written, expired=writing.expired)


class _Writing:
    """Rows to records to rounds of appends."""

    def __init__(
        self,
        cluster: Cluster,
        options: WriteOptions,
        columns: SinkColumns,
        staging: StagingPlan | None,
        *,
        target: BatchTarget | None = None,
        transaction: ProducerTransaction | None = None,
    ) -> None:
        """`target`: takes the encoded batches; by default the cluster. `staging`: has topics that need no look-up."""
        context = TaskContext.get()
        self._producer = TopicProducer(
            target or cluster,
            find_topic=_topic_finder(cluster, options, staging),
            now_ms=wall_clock_ms,
            settings=options.producer,
            # A different seed in each task of each job: small micro-batches without keys spread over all partitions.
            first_partition=context.taskAttemptId() if context is not None else 0,
            transaction=transaction,
        )
        task = context.partitionId() if context is not None else 0
        self._rows = SinkRows(columns, topic_option=options.topic, task=task)

    @property
    def row_count(self) -> int:
        return self._rows.row_count

    @property
    def expired(self) -> dict[str, ExpiredRows]:
        return self._producer.expired

    def write(self, batches: Iterator[Any], *, linger_s: float | None = None) -> Iterator[int]:
        """Yields the count of durable rows whenever it has grown; all rows are durable at the end.

        `linger_s`: batches that arrive later than this after the last round are written at once. None gathers full
        rounds.
        """
        durable = 0
        written_at_s = time.monotonic()
        for batch in batches:
            for topic, records in self._rows.by_topic(batch):
                self._producer.add(topic, records)
            if linger_s is not None and time.monotonic() - written_at_s >= linger_s:
                self._producer.flush()
                written_at_s = time.monotonic()
            if self._producer.appended_record_count > durable:
                durable = self._producer.appended_record_count
                yield durable
        self._producer.flush()
        if self._producer.appended_record_count > durable:
            yield self._producer.appended_record_count


def _topic_finder(cluster: Cluster, options: WriteOptions, staging: StagingPlan | None) -> Any:
    def find_topic(name: str) -> TopicDescription:
        planned = staging.topic(name) if staging is not None else None
        return planned or describe_or_create(
            cluster,
            name,
            partition_count=options.new_topics.partition_count,
            configs=options.new_topics.configs,
            creation=options.new_topics.creation,
        )

    return find_topic
