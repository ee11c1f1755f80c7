"""The messages that the tasks of a write return to the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage

from broker_core.record.expired_rows import ExpiredRows
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
    expired: Mapping[str, ExpiredRows] = field(default_factory=dict)
    """By topic: rows that it may delete as soon as they are written."""


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


def expired_of(messages: Iterable[WriterCommitMessage | None]) -> dict[str, ExpiredRows]:
    """Of all tasks together."""
    total: dict[str, ExpiredRows] = {}
    for message in messages:
        if isinstance(message, TaskCommitMessage):
            for topic, expired in message.expired.items():
                total[topic] = total[topic] + expired if topic in total else expired
    return total
