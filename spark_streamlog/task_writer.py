"""What one task of a write does, batch or stream: its Arrow batches go to the log, durable when it returns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from broker_core.cluster import Cluster, TopicDescription
from broker_core.topic_producer import TopicProducer, describe_or_create
from spark_streamlog.errors import with_conditions
from spark_streamlog.open_cluster import open_for_writing
from spark_streamlog.rows.sink_columns import SinkColumns
from spark_streamlog.rows.sink_rows import SinkRows
from spark_streamlog.write_options import WriteOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCommitMessage(WriterCommitMessage):
    """What a task tells the driver. All its rows are durable, and readable already, as at-least-once has it."""

    row_count: int


@with_conditions()
def write_at_least_once(options: WriteOptions, columns: SinkColumns, batches: Iterator[Any]) -> TaskCommitMessage:
    """Appends the rows with an idempotent producer of the task's own. A failed task may leave rows behind."""
    context = TaskContext.get()
    task = context.partitionId() if context is not None else 0
    cluster = open_for_writing(options.target)
    producer = TopicProducer(
        cluster,
        find_topic=_topic_finder(cluster, options),
        now_ms=lambda: time.time_ns() // 1_000_000,
        settings=options.producer,
        # Another one in each task of each job: small micro-batches without keys spread over all partitions.
        first_partition=context.taskAttemptId() if context is not None else 0,
    )
    rows = SinkRows(columns, topic_option=options.topic, task=task)
    for batch in batches:
        for topic, records in rows.by_topic(batch):
            producer.add(topic, records)
    producer.flush()
    return TaskCommitMessage(row_count=rows.row_count)


def _topic_finder(cluster: Cluster, options: WriteOptions) -> Any:
    def find_topic(name: str) -> TopicDescription:
        return describe_or_create(cluster, name, partition_count=options.new_topic_partition_count)

    return find_topic
