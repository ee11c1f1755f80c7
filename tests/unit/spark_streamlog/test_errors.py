import logging
import pickle
import re

import pytest

from broker_core.model.exceptions import (
    CorruptBatchError,
    DiskFullError,
    InvalidTimestampError,
    StreamlogError,
    UnknownPartitionError,
)
from spark_streamlog.errors import CONDITIONS, ConditionError, condition_error, report_data_loss, with_conditions


def parameters_of(text):
    return set(re.findall(r"(?<!\{)\{(\w+)\}(?!\})", text))


@pytest.mark.parametrize("name", CONDITIONS)
def test_every_condition_has_a_message_with_its_name_and_parameters(name):
    condition = CONDITIONS[name]
    parameters = {p: f"<{p}>" for p in parameters_of(condition.message) | parameters_of(condition.advice)}
    text = str(condition_error(name, **parameters))
    assert text.startswith(f"[{name}] ")
    assert all(value in text for value in parameters.values())


def test_an_error_can_be_pickled_with_its_fields():
    error = condition_error("KAFKA_DATA_LOSS.PARTITIONS_DELETED", partitions="t-0")
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, StreamlogError)
    assert (str(copy), copy.condition, copy.parameters) == (str(error), error.condition, {"partitions": "t-0"})


def test_a_json_example_in_advice_is_valid_json():
    error = condition_error(
        "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED", option="o", specified_partitions="", assigned_partitions=""
    )
    assert '{"topic":"earliest"}' in str(error)


def test_data_loss_fails_and_names_the_option_that_changes_it():
    with pytest.raises(StreamlogError, match="Set failOnDataLoss to false"):
        report_data_loss("KAFKA_DATA_LOSS.PARTITIONS_DELETED", fail_on_data_loss=True, partitions="t-0")


def test_data_loss_is_a_warning_if_the_query_continues(caplog):
    with caplog.at_level(logging.WARNING, logger="spark_streamlog"):
        report_data_loss("KAFKA_DATA_LOSS.PARTITIONS_DELETED", fail_on_data_loss=False, partitions="t-0")
    assert "t-0" in caplog.text
    assert "the query continues" in caplog.text


@pytest.mark.parametrize(
    ("error", "condition"),
    [
        (UnknownPartitionError("no partition 9", topic="t"), "STREAMLOG_UNKNOWN_PARTITION"),
        (CorruptBatchError("bytes", topic="t"), "STREAMLOG_CORRUPT_BATCH"),
        (DiskFullError("full", topic="t"), "STREAMLOG_DISK_FULL"),
        (StreamlogError("other", topic="t"), "STREAMLOG"),
    ],
)
def test_an_error_of_the_log_becomes_a_named_condition(error, condition):
    with pytest.raises(ConditionError) as raised, with_conditions():
        raise error
    assert (raised.value.condition, raised.value.parameters) == (condition, {"topic": "t"})
    assert str(raised.value) == f"[{condition}] {error.message}"


@pytest.mark.parametrize(
    ("words", "times"),
    [
        (
            "t-0: timestamp 1795867200123 of a record is 7200000 ms ahead of now, more than "
            "message.timestamp.after.max.ms=3600000 allows",
            ["1795867200123 (2026-11-28 12:00:00 UTC)", "7200000 ms (2:00:00) ahead", "max.ms=3600000 allows. Filter"],
        ),
        (
            "Timestamp 1000000000000 of message is out of range: [1795867200123, 1795870800123].",
            ["1000000000000 (2001-09-09 01:46:40 UTC)", "1795870800123 (2026-11-28 13:00:00 UTC)]. Filter"],
        ),
        ("t-0: a record is 864000000000 ms old", ["864000000000 ms (10000 days, 0:00:00) old. Filter"]),
        ("the broker answers INVALID_TIMESTAMP", ["INVALID_TIMESTAMP. Filter or correct such rows"]),
    ],
)
def test_a_refused_timestamp_is_readable_and_has_advice(words, times):
    # It was milliseconds, and nothing to do about them.
    with pytest.raises(ConditionError) as error, with_conditions():
        raise InvalidTimestampError(words)
    text = str(error.value)
    assert text.startswith("[STREAMLOG_INVALID_TIMESTAMP] ")
    for said in (*times, "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"):
        assert said in text


def test_an_error_with_a_condition_keeps_it():
    refusal = condition_error("KAFKA_DATA_LOSS.PARTITIONS_DELETED", partitions="t-0")
    with pytest.raises(ConditionError) as error, with_conditions():
        raise refusal
    assert error.value is refusal
