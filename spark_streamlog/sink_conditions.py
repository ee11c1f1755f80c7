"""Refusals of the sink: named conditions, beside those of the source in `errors`.

What is wrong with the columns is Spark's wording where its Kafka sink has one; there it has no condition's name.
"""

from __future__ import annotations

from typing import Any, Final

from spark_streamlog.errors import Condition, ConditionError

SINK_CONDITIONS: Final[dict[str, Condition]] = {
    "STREAMLOG_INVALID_SINK_COLUMNS": Condition(
        "The rows cannot be written: {complaints}. Their columns: {columns}.",
        "The sink writes the columns value (required), key, topic, partition, headers, timestamp, and ignores others.",
    ),
    "STREAMLOG_UNSUPPORTED_SAVE_MODE": Condition(
        "The save mode overwrite is not supported: a log only grows.",
        "Use mode('append'); to begin anew, delete the topic with: streamlog topic delete.",
    ),
    "KAFKA_NULL_TOPIC_IN_DATA": Condition(
        "The column topic is null in row {row} (counted from 0) of task {task}.",
        "Use the option topic for setting one topic for all rows, or fill the column.",
    ),
    "STREAMLOG_NEGATIVE_TIMESTAMP": Condition(
        "The column timestamp lies before 1970 in row {row} (counted from 0) of task {task}: a record's timestamp is "
        "never negative.",
        "Filter or correct such rows; a null timestamp becomes the time of writing.",
    ),
}


def sink_error(condition: str, **parameters: Any) -> ConditionError:
    """The exception for one condition. The parameters are those that its message names; a missing one is a KeyError."""
    entry = SINK_CONDITIONS[condition]
    message = f"[{condition}] {entry.message.format(**parameters)} {entry.advice}"
    return ConditionError(message, condition=condition, parameters=parameters)
