"""The errors of the sink: named conditions, in addition to those of the source in `errors`.

Complaints about columns have Spark's wording where its Kafka sink has one; Spark has no condition for them.
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
    "STREAMLOG_CANNOT_SERIALIZE": Condition(
        "The column {column} cannot be written as {format} in row {row} (counted from 0) of task {task}: {reason}.",
        "Filter or correct such rows, or change the schema that {column}Format names.",
    ),
    # -- exactly-once: in every case nothing of the batch becomes readable, and a restart repeats it --
    "STREAMLOG_TRANSACTION_EXPIRED": Condition(
        "The transaction {transactional_id} of {who} was aborted by its timeout before its batch was decided: it was "
        "opened {age_ms} ms ago and may stay open for {timeout_ms} ms.",
        "A task's transaction is open from its first row until all tasks of the batch are done: raise the option "
        "kafka.transaction.timeout.ms, or write less at a time (at a source, maxOffsetsPerTrigger). Nothing of the "
        "batch is readable.",
    ),
    "STREAMLOG_TRANSACTION_FENCED": Condition(
        "The transaction {transactional_id} of {who} was taken over or ended by somebody else before its batch was "
        "decided: {found}.",
        "Another driver of the same query may be running, or an earlier attempt of the same task that Spark had given "
        "up, or somebody ended it with: streamlog transactions abort. Nothing of the batch is readable; a restarted "
        "query repeats it.",
    ),
    "STREAMLOG_DRIVER_FENCED": Condition(
        "This driver may not decide for {who} any more: {found}.",
        "Run one driver at a time with one checkpoint, or one txnAppId. If the newer one is the one that should run, "
        "there is nothing to do; rows are neither lost nor doubled.",
    ),
    "STREAMLOG_BATCH_NOT_NEXT": Condition(
        "The batch {batch} of {who} cannot be written: {reason}.",
        "The checkpoint was restored from an older state, or copied and used twice: writing would double rows, "
        "skipping would lose some. Use the checkpoint that goes with this log, or start with a new one. To write this "
        "batch and the following ones all the same, remove what the log remembers: streamlog group delete {group}.",
    ),
    "STREAMLOG_BATCH_INCOMPLETE": Condition(
        "The batch {batch} of {who} was decided, and not all of it became readable: the transactions {lost} timed out, "
        "or were ended by somebody, before the driver or its successor committed them. Their rows are missing.",
        "Start a query again sooner than its transactions time out (kafka.transaction.timeout.ms, at most the broker's "
        "transaction.max.timeout.ms). To write the batch again, with what is readable of it twice, remove what the log "
        "remembers: streamlog group delete {group}.",
    ),
    "STREAMLOG_TOO_MANY_TASKS": Condition(
        "The batch {batch} of {task_count} tasks cannot be decided at a broker: what is to be known of its transactions"
        " does not fit into the metadata of a committed offset. Nothing of it is readable.",
        "Write from fewer partitions: repartition or coalesce before the sink.",
    ),
    "STREAMLOG_UNKNOWN_QUERY": Condition(
        "Exactly-once delivery of a stream needs the query's id and batch, and Spark gave the task neither: {found}.",
        "With the option delivery=at-least-once they are not needed.",
    ),
    "STREAMLOG_FOREACH_BATCH_NEEDS_APP_ID": Condition(
        "Spark does not tell which query this micro-batch is of, so write_to(…) cannot write it exactly-once.",
        "Give write_to an app_id of its own, which no other query uses (on Spark Connect it is always needed), or "
        "options={{'delivery': 'at-least-once'}}.",
    ),
    "STREAMLOG_FOREACH_BATCH_HAS_ITS_PAIR": Condition(
        "write_to(…) takes no {names}: each micro-batch is written with the query's id and its own number.",
        "Give app_id for another name than the query's id.",
    ),
}


def sink_error(condition: str, **parameters: Any) -> ConditionError:
    """The exception for one condition. Pass the parameters that its message names; a missing one is a KeyError."""
    entry = SINK_CONDITIONS[condition]
    message = f"[{condition}] {entry.message.format(**parameters)} {entry.advice.format(**parameters)}"
    return ConditionError(message, condition=condition, parameters=parameters)
