"""The errors of the data source: each is a named condition with parameters and advice.

Where Spark's Kafka connector has a condition for it, the name is Spark's, so that users find it by searching; the
wording is ours. A message reads

    [KAFKA_DATA_LOSS.PARTITIONS_DELETED] what happened, where. What to do, or which option changes it.

An error of the log (`broker_core.model.exceptions`) gets its condition from its class when it is passed on to Spark:
UnknownPartitionError becomes STREAMLOG_UNKNOWN_PARTITION.

The exception is pickled from tasks to the driver and reaches the user as text. So the message is complete by itself;
`condition` and `parameters` are for programs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from broker_core.model.exceptions import StreamlogError

logger = logging.getLogger("spark_streamlog")

_LOSS_ADVICE = (
    "The records were deleted by retention, by delete-records, or with their topic before they were read. Set "
    "failOnDataLoss to false to continue with the records that are left; raise retention.ms or retention.bytes to lose "
    "less."
)
_RESTART_ADVICE = "Restart the query: a new run determines a new end."


@dataclass(frozen=True, slots=True)
class Condition:
    """`message` is a template over the parameters' names; `advice` follows it."""

    message: str
    advice: str = ""


class ConditionError(StreamlogError):
    """An error with a named condition. Fields: `condition`, `parameters`."""

    condition: str
    parameters: Mapping[str, Any]


CONDITIONS: dict[str, Condition] = {
    # -- options and the location of the log --
    "STREAMLOG_INVALID_OPTIONS": Condition("{count} option(s) of the streamlog {role} are wrong: {complaints}"),
    "STREAMLOG_NO_SUCH_LOG": Condition(
        "There is no log at {path}: {reason}.",
        "Check the path given to load() or the option path. The first write to a path creates the log directory.",
    ),
    "STREAMLOG_LOG_NOT_SHARED": Condition(
        "A task on host {host} cannot use {path}: {found}. The query was planned on host {planning_host} with the log "
        "{log_id} at this path.",
        "A log directory can be shared only by processes of one machine and one file system. For executors on other "
        "machines or in containers of their own, run streamlog broker on the directory's machine and set "
        "kafka.bootstrap.servers in place of the path. If the directory was deleted and created again since the query "
        "was planned, load it again.",
    ),
    "STREAMLOG_CATALOG_TABLE": Condition(
        "A log cannot be a table of Spark's catalog: when Spark reads a catalog table whose source is written in "
        "Python, it passes the columns and none of the options.",
        "Create a view: CREATE TEMPORARY VIEW name USING streamlog OPTIONS (path '…', subscribe '…'), and add "
        "topic '…' if INSERT INTO is to write to it; or load the log with spark.read.format('streamlog'). Rows that "
        "CREATE TABLE, saveAsTable or toTable wrote are in the log, and DROP TABLE does not delete them.",
    ),
    "STREAMLOG_FIXED_SCHEMA": Condition(
        "The schema of the streamlog source is fixed. The query asked for {asked}; the source returns {given}.",
        "Remove schema(...) and cast the columns afterwards; the option includeHeaders adds the column headers. If a "
        "new version of the schema was registered since load(), load again.",
    ),
    "STREAMLOG_UNKNOWN_TOPICS": Condition(
        "The option {option} names topics or partitions that do not exist in {target}: {missing}. Existing topics: "
        "{present}.",
        "Check the spelling (topic names are case-sensitive), or create the topic by writing to it first.",
    ),
    # -- starting and ending offsets --
    "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED": Condition(
        "The partitions in {option} are not those that the query reads. "
        "Specified: {specified_partitions}. Assigned: {assigned_partitions}.",
        "Name every partition exactly once, with -2 for earliest and -1 for latest, or give a whole topic as "
        '{{"topic":"earliest"}}.',
    ),
    "KAFKA_END_OFFSET_DOES_NOT_MATCH_ASSIGNED": Condition(
        "The partitions in {option} are not those that the query reads. "
        "Specified: {specified_partitions}. Assigned: {assigned_partitions}.",
        'Name every partition exactly once, with -1 for latest, or give a whole topic as {{"topic":"latest"}}.',
    ),
    "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED": Condition(
        "The partitions in {option}, which sets the {position} of the range, are not those that the query reads. "
        "Specified: {specified_partitions}. Assigned: {assigned_partitions}.",
        "Name every partition exactly once, or give one time for all with startingTimestamp or endingTimestamp.",
    ),
    "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET": Condition(
        "startingOffsets and endingOffsets name different partitions. "
        "Start: {tps_for_start_offset}. End: {tps_for_end_offset}.",
        "Give both for the same partitions.",
    ),
    "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET": Condition(
        "The start {start_offset} is above the end {end_offset} for topic {topic} partition {partition}.",
        "The range includes the start and excludes the end. Swap or correct them.",
    ),
    "UNRESOLVED_START_TIMESTAMP_GREATER_THAN_END_TIMESTAMP": Condition(
        "The starting timestamp {start_offset} is above the ending timestamp {end_offset} for topic {topic} partition "
        "{partition}.",
        "Swap or correct them.",
    ),
    "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET": Condition(
        "The start resolves to offset {start_offset}, which is above the end at offset {end_offset}, for topic {topic} "
        "partition {partition}.",
        "startingOffsets is above the end of the log, or the first record at or after startingTimestamp or "
        "startingOffsetsByTimestamp lies beyond the end of the range. Start earlier, or end later (endingOffsets, "
        "endingTimestamp, endingOffsetsByTimestamp).",
    ),
    "STREAMLOG_NO_OFFSET_FOR_TIMESTAMP": Condition(
        "No record of {topic_partition} has a timestamp at or after {timestamp_ms}, the time given in {option}.",
        "Set startingOffsetsByTimestampStrategy=latest to start such a partition at its end.",
    ),
    "STREAMLOG_CORRUPT_VALUE": Condition(
        "The {side} of topic {topic} partition {partition} at offset {offset} cannot be read as {format}: {reason}.",
        "With {side}Format.mode=permissive the {side} is null and the column _corrupt contains the reason; with "
        "dropmalformed the row is dropped.",
    ),
    "STREAMLOG_UNREADABLE_RECORD": Condition(
        "A record of topic {topic} partition {partition} at offset {offset} cannot be read: {reason}.",
        "Set onUnreadableRecord=skip to skip such records; a warning then counts them. Or read the offsets before and "
        "after it with endingOffsets and startingOffsets.",
    ),
    "STREAMLOG_TABLE_IN_STREAM": Condition(
        "The metadata tables (option table) can only be read in a batch query.",
        "Use spark.read; in a stream, call it in foreachBatch.",
    ),
    "STREAMLOG_GROUP_WITHOUT_OFFSETS": Condition(
        "startingOffsets=group:{group} starts at the committed offsets of a consumer group, and this group has "
        "committed none for the partitions of the query: {partitions}.",
        "Check the group's name (it is case-sensitive) and its topics, or set startingOffsets to earliest or latest.",
    ),
    "STREAMLOG_PIN_LOST": Condition(
        "pinRetention protects the records that the query still needs from retention, and the query's offsets cannot "
        "be stored in the group {group}: {reason}",
        "Remove the option pinRetention to continue without this protection.",
    ),
    "STREAMLOG_INVALID_CHECKPOINT_OFFSET": Condition(
        "The checkpoint contains an offset that this source cannot have written: {json}. {reason}",
        'Expected {{"topic":{{"0":23}}}}. The checkpoint may belong to another source of the query.',
    ),
    # -- data loss: fails, or warns and continues with failOnDataLoss=false --
    "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO": Condition(
        "The partition {topic_partition} was added while the query ran and starts at offset {start_offset} instead of "
        "0.",
        _LOSS_ADVICE,
    ),
    "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE": Condition(
        "The offsets [{start_offset}, {end_offset}) of {topic_partition} cannot be read: the log now contains "
        "[{log_start_offset}, {log_end_offset}).",
        "If the end is above the end of the log, endingOffsets is too high or the log was truncated. Otherwise: "
        + _LOSS_ADVICE,
    ),
    "KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS": Condition(
        "The partitions {partitions} were deleted after they were listed and before their starting offsets were read.",
        _LOSS_ADVICE,
    ),
    "KAFKA_DATA_LOSS.PARTITIONS_DELETED": Condition(
        "The query has read the partitions {partitions}, and they no longer exist.", _LOSS_ADVICE
    ),
    "KAFKA_DATA_LOSS.PARTITIONS_NOT_SUBSCRIBED": Condition(
        "The query has read the partitions {partitions}, and {option} no longer names them. They still exist: their "
        "unread records will be missed.",
        "Name them again in {option}; to drop them for good, start the query once with failOnDataLoss set to false.",
    ),
    "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED": Condition(
        "The end of {topic_partition} is offset {new_offset}, below offset {prev_offset}, where the query continues: "
        "the topic was recreated, its log was truncated, or this is the first batch and the start was set too high.",
        _LOSS_ADVICE,
    ),
    "KAFKA_DATA_LOSS.START_OFFSET_RESET": Condition(
        "{topic_partition} was to start at offset {offset}, but its log contains [{log_start_offset}, "
        "{log_end_offset}): it starts at offset {fetched_offset}.",
        _LOSS_ADVICE,
    ),
    "KAFKA_DATA_LOSS.TOPIC_RECREATED": Condition(
        "The topic {topic} was deleted and recreated (topic id {old_id}, now {new_id}): the unread records of the old "
        "topic are gone.",
        _LOSS_ADVICE + " Reading then continues from the start of the new topic.",
    ),
    # -- Trigger.AvailableNow: a partition lost or shrunk during a run fails regardless of failOnDataLoss --
    "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED": Condition(
        "With Trigger.AvailableNow a batch must end at the partitions that were fixed when the run began. "
        "Fixed: {tps_for_prefetched}. End: {tps_for_end_offset}.",
        _RESTART_ADVICE,
    ),
    "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED": Condition(
        "With Trigger.AvailableNow a batch must not end beyond the offsets that were fixed when the run began. "
        "Fixed: {prefetched_offset}. End: {end_offset}.",
        _RESTART_ADVICE,
    ),
    "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW": Condition(
        "Partitions were lost while the query ran with Trigger.AvailableNow. "
        "Now: {tps_for_latest_offset}. Expected: {tps_for_end_offset}.",
        _RESTART_ADVICE,
    ),
    "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW": Condition(
        "Partitions shrank below the end of the batch while the query ran with Trigger.AvailableNow. "
        "Now: {latest_offset}. End: {end_offset}.",
        _RESTART_ADVICE,
    ),
}  # fmt: skip


ADVICE_FOR_LOG_ERRORS: Final[dict[str, str]] = {
    "STREAMLOG_INVALID_TIMESTAMP": "Filter or correct such rows, or let the topic accept them: streamlog topic alter "
    "NAME --config message.timestamp.after.max.ms=… (how far in the future) or message.timestamp.before.max.ms=… (how "
    "old).",
    "STREAMLOG_TOPIC_NOT_CREATED": "Create it with streamlog topic create NAME or kafka-topics.sh --create. With the "
    "option topic.create=true the write creates it, if the user is authorized to.",
}
"""The advice that follows an error of the log, which does not know the options of its caller."""

_TIMESTAMP_MS: Final = re.compile(r"\b\d{12,14}\b(?! ms\b)")
_DURATION_MS: Final = re.compile(r"\b(\d{4,14}) ms\b")


def condition_error(condition: str, **parameters: Any) -> ConditionError:
    """The exception for one condition. Pass the parameters that its message names; a missing one is a KeyError."""
    return ConditionError(_message(condition, parameters), condition=condition, parameters=parameters)


def report_data_loss(condition: str, *, fail_on_data_loss: bool, **parameters: Any) -> None:
    """Raises the condition, or logs it as a warning and returns if the query is to continue."""
    if fail_on_data_loss:
        raise condition_error(condition, **parameters)
    logger.warning(
        "%s (failOnDataLoss is false: the query continues)", _message(condition, parameters, with_advice=False)
    )


_AROUND_CALLS: Final[list[Callable[[], AbstractContextManager[None]]]] = []


def around_calls(enter: Callable[[], AbstractContextManager[None]]) -> None:
    """Enters the context around every call from Spark: for code that must know that a call is in progress."""
    _AROUND_CALLS.append(enter)


@contextmanager
def with_conditions() -> Iterator[None]:
    """Wraps what Spark calls: an error of the log becomes a ConditionError with the same message and fields."""
    with ExitStack() as around:
        for enter in _AROUND_CALLS:
            around.enter_context(enter())
        try:
            yield
        except ConditionError:
            raise
        except StreamlogError as error:
            raise _named(error) from error


def _named(error: StreamlogError) -> ConditionError:
    words = re.findall(r"[A-Z][a-z0-9]*", type(error).__name__.removesuffix("Error"))
    condition = "_".join(["STREAMLOG", *(word.upper() for word in words if word != "Streamlog")])
    text = error.message
    if condition in ADVICE_FOR_LOG_ERRORS:
        text = f"{_with_times(text).rstrip('.')}. {ADVICE_FOR_LOG_ERRORS[condition]}"
    return ConditionError(f"[{condition}] {text}", condition=condition, parameters=error.fields)


def _with_times(text: str) -> str:
    """Keeps the milliseconds of a message, for programs, and adds a readable form, for users."""
    text = _DURATION_MS.sub(lambda found: f"{found[0]} ({timedelta(seconds=int(found[1]) // 1000)})", text)
    return _TIMESTAMP_MS.sub(
        lambda found: f"{found[0]} ({datetime.fromtimestamp(int(found[0]) // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC)", text
    )


def _message(condition: str, parameters: Mapping[str, Any], *, with_advice: bool = True) -> str:
    entry = CONDITIONS[condition]
    text = entry.message.format(**parameters)
    advice = " " + entry.advice.format(**parameters) if entry.advice and with_advice else ""
    return f"[{condition}] {text}{advice}"
