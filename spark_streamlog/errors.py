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
    "The records were removed by retention, by delete-records, or with their topic, before they were read. To go on "
    "with what is still there, set the option failOnDataLoss to false; to lose less, raise retention.ms or "
    "retention.bytes."
)
_RESTART_ADVICE = "Restart the query: a new run fixes a new end."


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
    # -- options and the place of the log --
    "STREAMLOG_INVALID_OPTIONS": Condition("{count} option(s) of the streamlog {role} are wrong: {complaints}"),
    "STREAMLOG_NO_SUCH_LOG": Condition(
        "There is no log at {path}: {reason}.",
        "Check the path given to load() or the option path; a log directory is made by the first write to it.",
    ),
    "STREAMLOG_LOG_NOT_SHARED": Condition(
        "A task on host {host} cannot use {path}: {found}. The query was planned on host {planning_host} with the log "
        "{log_id} at this path.",
        "A log directory serves processes that share one machine and its file system. Executors elsewhere, also in a "
        "container of their own, need a broker: run streamlog broker on the directory's machine and give "
        "kafka.bootstrap.servers in place of the path. If the directory was deleted and made again since the query was "
        "planned, load it again.",
    ),
    "STREAMLOG_CATALOG_TABLE": Condition(
        "A log cannot be a table of Spark's catalog: of a table whose source is written in Python, Spark keeps the "
        "columns and hands over none of the options when it is read.",
        "Make a view: CREATE TEMPORARY VIEW name USING streamlog OPTIONS (path '…', subscribe '…'), with topic '…' "
        "where INSERT INTO is to write; or load the log with spark.read.format('streamlog'). The rows of a table that "
        "was made by CREATE TABLE, saveAsTable or toTable are in the log, and DROP TABLE leaves them there.",
    ),
    "STREAMLOG_FIXED_SCHEMA": Condition(
        "The streamlog source has a fixed schema and cannot take another: asked for {asked}, it gives {given}.",
        "Remove schema(...) and cast the columns afterwards; includeHeaders adds the column headers. If a schema "
        "registry has got a new version of the schema since load(), load again.",
    ),
    "STREAMLOG_UNKNOWN_TOPICS": Condition(
        "The option {option} names what does not exist in {target}: {missing}. Topics there: {present}.",
        "Check the spelling (names keep their case), or create the topic by writing to it first.",
    ),
    # -- starting and ending offsets --
    "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED": Condition(
        "The partitions in {option} are not those that the query reads. "
        "In the option: {specified_partitions}. To be read: {assigned_partitions}.",
        "Name every partition exactly once, -2 for earliest and -1 for latest, or give a whole topic as "
        '{{"topic":"earliest"}}.',
    ),
    "KAFKA_END_OFFSET_DOES_NOT_MATCH_ASSIGNED": Condition(
        "The partitions in {option} are not those that the query reads. "
        "In the option: {specified_partitions}. To be read: {assigned_partitions}.",
        'Name every partition exactly once, -1 for latest, or give a whole topic as {{"topic":"latest"}}.',
    ),
    "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED": Condition(
        "The partitions in {option}, the {position} of the range, are not those that the query reads. "
        "In the option: {specified_partitions}. To be read: {assigned_partitions}.",
        "Name every partition exactly once, or give one time for all with startingTimestamp or endingTimestamp.",
    ),
    "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET": Condition(
        "startingOffsets and endingOffsets name different partitions. "
        "Start: {tps_for_start_offset}. End: {tps_for_end_offset}.",
        "Give both for the same partitions.",
    ),
    "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET": Condition(
        "The start {start_offset} is above the end {end_offset} for topic {topic} partition {partition}.",
        "The start is included, the end is not: swap or correct them.",
    ),
    "UNRESOLVED_START_TIMESTAMP_GREATER_THAN_END_TIMESTAMP": Condition(
        "The starting timestamp {start_offset} is above the ending timestamp {end_offset} for topic {topic} partition "
        "{partition}.",
        "Swap or correct them.",
    ),
    "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET": Condition(
        "The start resolves to offset {start_offset}, above the end, which resolves to {end_offset}, for topic {topic} "
        "partition {partition}.",
        "startingOffsets lies above the end of the log, or startingTimestamp or "
        "startingOffsetsByTimestamp a time whose first record lies behind the end: start earlier, or end later "
        "(endingOffsets, endingTimestamp, endingOffsetsByTimestamp).",
    ),
    "STREAMLOG_NO_OFFSET_FOR_TIMESTAMP": Condition(
        "No record of {topic_partition} has a timestamp at or after {timestamp_ms}, which {option} asks for.",
        "With startingOffsetsByTimestampStrategy=latest such a partition starts at its end.",
    ),
    "STREAMLOG_CORRUPT_VALUE": Condition(
        "The {side} of topic {topic} partition {partition} at offset {offset} cannot be read as {format}: {reason}.",
        "With {side}Format.mode=permissive it is null and the reason stands in the column _corrupt; with dropmalformed "
        "its row is left out.",
    ),
    "STREAMLOG_UNREADABLE_RECORD": Condition(
        "A record of topic {topic} partition {partition} at offset {offset} cannot be read: {reason}.",
        "With onUnreadableRecord=skip it is left out, and a warning counts what was. endingOffsets and startingOffsets "
        "can read around it, too.",
    ),
    "STREAMLOG_TABLE_IN_STREAM": Condition(
        "The metadata tables (option table) can only be read in a batch query.",
        "Use spark.read, in foreachBatch where a stream needs them.",
    ),
    "STREAMLOG_GROUP_WITHOUT_OFFSETS": Condition(
        "startingOffsets=group:{group} asks for the offsets of a consumer group that has committed none in the "
        "partitions to be read: {partitions}.",
        "Check the group's name (it keeps its case) and its topics; startingOffsets=earliest or latest needs no group.",
    ),
    "STREAMLOG_PIN_LOST": Condition(
        "pinRetention asks to keep retention off what the query still needs, and its offsets cannot be stored in the "
        "group {group}: {reason}",
        "Without the option pinRetention the query goes on unprotected.",
    ),
    "STREAMLOG_INVALID_CHECKPOINT_OFFSET": Condition(
        "The checkpoint holds an offset that is not one of this source: {json}. {reason}",
        'Expected {{"topic":{{"0":23}}}}. The checkpoint may belong to another source of the query.',
    ),
    # -- data loss: fails, or warns and continues with failOnDataLoss=false --
    "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO": Condition(
        "The partition {topic_partition} appeared while the query ran and starts at {start_offset} instead of 0.",
        _LOSS_ADVICE,
    ),
    "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE": Condition(
        "The offsets [{start_offset}, {end_offset}) of {topic_partition} cannot be read: the log now holds "
        "[{log_start_offset}, {log_end_offset}).",
        "An end above the log's was set too high in endingOffsets, or the log was cut. Else: " + _LOSS_ADVICE,
    ),
    "KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS": Condition(
        "The partitions {partitions} vanished between listing them and asking where they start.", _LOSS_ADVICE
    ),
    "KAFKA_DATA_LOSS.PARTITIONS_DELETED": Condition(
        "The partitions {partitions} were read before and exist no more.", _LOSS_ADVICE
    ),
    "KAFKA_DATA_LOSS.PARTITIONS_NOT_SUBSCRIBED": Condition(
        "The query has read the partitions {partitions}, and {option} does not name them any more. They are still "
        "there: what was not read of them will be missed.",
        "Name them again in {option}, or leave them out for good: start once with failOnDataLoss set to false.",
    ),
    "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED": Condition(
        "The end of {topic_partition} is {new_offset}, below the offset {prev_offset} where reading should go on: the "
        "topic was recreated or its log was cut, or the start was set too high and this is the first batch.",
        _LOSS_ADVICE,
    ),
    "KAFKA_DATA_LOSS.START_OFFSET_RESET": Condition(
        "{topic_partition} was to start at {offset}, but its log holds [{log_start_offset}, {log_end_offset}): it "
        "starts at {fetched_offset}.",
        _LOSS_ADVICE,
    ),
    "KAFKA_DATA_LOSS.TOPIC_RECREATED": Condition(
        "The topic {topic} was deleted and made again (topic id {old_id}, now {new_id}): what was not yet read of the "
        "old one is gone.",
        _LOSS_ADVICE + " Reading then goes on from the start of the new topic.",
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
        "Now: {tps_for_latest_offset}. To be read: {tps_for_end_offset}.",
        _RESTART_ADVICE,
    ),
    "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW": Condition(
        "Partitions shrank below the end of the batch while the query ran with Trigger.AvailableNow. "
        "Now: {latest_offset}. End: {end_offset}.",
        _RESTART_ADVICE,
    ),
}  # fmt: skip


ADVICE_ON_THE_LOG: Final[dict[str, str]] = {
    "STREAMLOG_INVALID_TIMESTAMP": "Filter or correct such rows, or let the topic take them: streamlog topic alter NAME"
    " --config message.timestamp.after.max.ms=… (how far ahead of now) or message.timestamp.before.max.ms=… (how old).",
    "STREAMLOG_TOPIC_NOT_CREATED": "streamlog topic create NAME or kafka-topics.sh --create makes one. With the option "
    "topic.create=true the write makes it, if the user may.",
}
"""The advice that follows the log's message, where the log does not know the options of its caller."""

_TIMESTAMP_MS: Final = re.compile(r"\b\d{12,14}\b(?! ms\b)")
_DURATION_MS: Final = re.compile(r"\b(\d{4,14}) ms\b")


def condition_error(condition: str, **parameters: Any) -> ConditionError:
    """The exception for one condition. Pass the parameters that its message names; a missing one is a KeyError."""
    return ConditionError(_message(condition, parameters), condition=condition, parameters=parameters)


def report_data_loss(condition: str, *, fail_on_data_loss: bool, **parameters: Any) -> None:
    """Raises the condition, or logs it as a warning and returns if the query is to continue."""
    if fail_on_data_loss:
        raise condition_error(condition, **parameters)
    logger.warning("%s (failOnDataLoss is false: going on)", _message(condition, parameters, with_advice=False))


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
    if condition in ADVICE_ON_THE_LOG:
        text = f"{_with_times(text).rstrip('.')}. {ADVICE_ON_THE_LOG[condition]}"
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
