"""The messages that the tasks of a write return to the driver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage

from spark_streamlog.sink.planned_sink import PlannedSink


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCommitMessage(WriterCommitMessage):
    """All rows of the task are durable.

    With exactly-once delivery `sink` names the sink and batch, and `written` is what the driver commits: None if there
    were no rows, or the batch is decided already. With at-least-once both are None, and the rows are readable.
    """

    row_count: int
    sink: PlannedSink | None = None
    written: Any = None


def sink_of_messages(messages: Iterable[WriterCommitMessage | None]) -> PlannedSink | None:
    """The sink and batch, the same in every message. None: no task has returned."""
    return next((message.sink for message in messages if isinstance(message, TaskCommitMessage)), None)


def written_by(messages: Iterable[WriterCommitMessage | None]) -> list[Any]:
    """What the driver commits, in the order of the tasks. A failed task has no message."""
    return [
        message.written
        for message in messages
        if isinstance(message, TaskCommitMessage) and message.written is not None
    ]
