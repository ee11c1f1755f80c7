"""What the tasks of a write tell the driver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage

from spark_streamlog.sink.planned_sink import PlannedSink


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCommitMessage(WriterCommitMessage):
    """All rows of the task are durable.

    With exactly-once delivery `sink` says whose batch it is, and `written` is what the driver is to commit: None when
    there were no rows, or the batch is decided already. With at-least-once both are None, and the rows are readable.
    """

    row_count: int
    sink: PlannedSink | None = None
    written: Any = None


def sink_of_messages(messages: Iterable[WriterCommitMessage | None]) -> PlannedSink | None:
    """Whose batch it is, which every task says alike. None: no task has returned."""
    return next((message.sink for message in messages if isinstance(message, TaskCommitMessage)), None)


def written_by(messages: Iterable[WriterCommitMessage | None]) -> list[Any]:
    """What is to be committed, in the order of the tasks. Of a task that failed there is no message."""
    return [
        message.written
        for message in messages
        if isinstance(message, TaskCommitMessage) and message.written is not None
    ]
