"""The errors of the sink: named conditions, in addition to those of the source in `errors`.

Complaints about columns have Spark's wording where its Kafka sink has one; Spark has no condition for them.
"""

from __future__ import annotations

from typing import Any, Final

from spark_streamlog.errors import Condition, ConditionError

SINK_CONDITIONS: Final[dict[str, Condition]] = {
    "STREAMLOG_INVALID_SINK_COLUMNS": Condition(
        "The rows cannot be written: {complaints}. Their columns: {columns}.",
        "The sink writes the columns value (required), key, topic, partition, headers and timestamp, and ignores "
        "others.",
    ),
    "STREAMLOG_UNSUPPORTED_SAVE_MODE": Condition(
        "The save mode overwrite is not supported: rows can only be appended to a log.",
        "Use mode('append'); to start over, delete the topic first with: streamlog topic delete.",
    ),
    "KAFKA_NULL_TOPIC_IN_DATA": Condition(
        "The column topic is null in row {row} (counted from 0) of task {task}.",
        "Set the option topic to write all rows to one topic, or fill the column.",
    ),
    "STREAMLOG_NEGATIVE_TIMESTAMP": Condition(
        "The column timestamp is before 1970 in row {row} (counted from 0) of task {task}: a record's timestamp cannot "
        "be negative.",
        "Filter or correct such rows. A null timestamp becomes the time of writing.",
    ),
    "STREAMLOG_CANNOT_SERIALIZE": Condition(
        "The column {column} cannot be written as {format} in row {row} (counted from 0) of task {task}: {reason}.",
        "Filter or correct such rows, or change the schema given by the option {column}Format.",
    ),
    # -- exactly-once: in every case nothing of the batch becomes readable, and a restart repeats it --
    "STREAMLOG_TRANSACTION_EXPIRED": Condition(
        "The transaction {transactional_id} of {writer} timed out and was aborted before its batch was decided: it was "
        "opened {age_ms} ms ago, and its timeout is {timeout_ms} ms.",
        "A task's transaction is open from its first row until all tasks of the batch are done. Raise the option "
        "kafka.transaction.timeout.ms, or write less per batch (at a source, maxOffsetsPerTrigger). Nothing of the "
        "batch is readable.",
    ),
    "STREAMLOG_TRANSACTION_FENCED": Condition(
        "The transaction {transactional_id} of {writer} was taken over or ended by another process before its batch "
        "was decided: {found}.",
        "Another driver of the same query may be running, or an earlier attempt of the same task that Spark has "
        "abandoned, or a user ended it with: streamlog transactions abort. Nothing of the batch is readable; a "
        "restarted query repeats it.",
    ),
    "STREAMLOG_DRIVER_FENCED": Condition(
        "This driver may no longer decide batches of {writer}: {found}.",
        "Run one driver at a time with one checkpoint, or one txnAppId. If the newer driver is the one that should "
        "run, nothing needs to be done: no row is lost or duplicated.",
    ),
    "STREAMLOG_BATCH_NOT_NEXT": Condition(
        "The batch {batch} of {writer} cannot be written: {reason}.",
        "The checkpoint was restored from an older state, or copied and used twice. Writing the batch would duplicate "
        "rows, and skipping it would lose rows. Use the checkpoint that belongs to this log, or start with a new one. "
        "To write this batch and the following ones anyway, delete the sink's decisions: streamlog group delete "
        "{group}.",
    ),
    "STREAMLOG_BATCH_INCOMPLETE": Condition(
        "The batch {batch} of {writer} was decided, but not all of it became readable: the transactions {lost} timed "
        "out, or another process ended them, before the driver or its successor committed them. Their rows are "
        "missing.",
        "Restart a query before its transactions time out (kafka.transaction.timeout.ms, at most the broker's "
        "transaction.max.timeout.ms). To write the batch again, which duplicates its readable rows, delete the sink's "
        "decisions: streamlog group delete {group}.",
    ),
    "STREAMLOG_TOO_MANY_TASKS": Condition(
        "The batch {batch} of {task_count} tasks cannot be decided at a broker: the list of its transactions does not "
        "fit into the metadata of a committed offset. Nothing of it is readable.",
        "Write from fewer partitions: call repartition or coalesce before the sink.",
    ),
    "STREAMLOG_UNKNOWN_QUERY": Condition(
        "Exactly-once delivery of a stream needs the ids of the query and the batch, and Spark did not pass both to "
        "the task: {found}.",
        "The option delivery=at-least-once does not need them.",
    ),
    "STREAMLOG_FOREACH_BATCH_NEEDS_APP_ID": Condition(
        "write_to(…) cannot write this micro-batch exactly-once: Spark does not provide the id of its query.",
        "Pass an app_id to write_to that no other query uses (Spark Connect always needs it), or "
        "options={{'delivery': 'at-least-once'}}.",
    ),
    "STREAMLOG_FOREACH_BATCH_SETS_IDS": Condition(
        "write_to(…) does not accept {names}: it writes each micro-batch with the ids of the query and the batch.",
        "Pass app_id to replace the query's id.",
    ),
}


def sink_error(condition: str, **parameters: Any) -> ConditionError:
    """The exception for one condition. Pass the parameters that its message names; a missing one is a KeyError."""
    entry = SINK_CONDITIONS[condition]
    message = f"[{condition}] {entry.message.format(**parameters)} {entry.advice.format(**parameters)}"
    return ConditionError(message, condition=condition, parameters=parameters)
