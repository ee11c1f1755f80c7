import pickle

import pytest
from support.builders.builders import SOME_TIME_MS, a_batch, a_record

from broker_core.log import batch_validation
from broker_core.log.batch_validation import validate_batches
from broker_core.log.record_refusals import summary_of
from broker_core.model.exceptions import InvalidRecordError, InvalidTimestampError
from broker_core.model.identifiers import CompressionType, TimestampType
from broker_core.model.record_error import RecordError
from broker_core.model.topic_config import TopicConfig

NO_KEY, OLD, AHEAD = {"key": None}, {"timestamp_ms": 1000}, {"timestamp_ms": SOME_TIME_MS + 10**8}
SETTINGS = {"cleanup.policy": "compact", "message.timestamp.before.max.ms": "1000000000"}


def refusal_of(*batches, **settings):
    with pytest.raises(InvalidRecordError) as caught:
        validate_batches(
            bytearray().join(batches),
            config=TopicConfig.from_strings(SETTINGS | settings),
            now_ms=SOME_TIME_MS,
            name="t-0",
        )
    return caught.value


def a_batch_of(*kinds, **more):
    return a_batch([a_record(number, **kind) for number, kind in enumerate(kinds)], **more)


@pytest.mark.parametrize("codec", CompressionType)
def test_each_refused_record_is_listed_with_its_reason(codec):
    error = refusal_of(a_batch_of({}, NO_KEY, {}, OLD, AHEAD, NO_KEY | OLD, compression=codec))
    assert type(error) is InvalidTimestampError
    no_key = "Compacted topic cannot accept message without key in topic partition t-0"
    accepted = f"The timestamp should be within [{SOME_TIME_MS - 10**9}, {SOME_TIME_MS + 3_600_000}]"
    assert [(each.index, each.message) for each in error.record_errors] == [
        (1, no_key),
        (3, f"Timestamp 1000 of message with offset 3 is out of range. {accepted}"),
        (4, f"Timestamp {SOME_TIME_MS + 10**8} of message with offset 4 is out of range. {accepted}"),
        (5, no_key),
    ]
    assert error.message == f"t-0: 4 of 6 records are refused. Record 1: {no_key} (cleanup.policy=compact)"
    assert summary_of(error) == "One or more records have been rejected due to invalid timestamp"
    assert pickle.loads(pickle.dumps(error)).record_errors == error.record_errors


def test_without_a_timestamp_error_the_code_is_invalid_record():
    error = refusal_of(a_batch_of({}, NO_KEY))
    assert type(error) is InvalidRecordError
    assert [each.index for each in error.record_errors] == [1]


def test_the_summary_shows_the_first_three_records_that_have_no_key():
    error = refusal_of(a_batch_of(*[NO_KEY] * 4))
    message = "Compacted topic cannot accept message without key in topic partition t-0"
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{message}')" for index in range(3))
    assert summary_of(error) == (
        "One or more records have been rejected due to 4 record errors in total, and only showing the first three"
        f" errors at most: [{shown}]"
    )


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [(OLD, "message.timestamp.before.max.ms=1000000000"), (AHEAD, "message.timestamp.after.max.ms=3600000")],
)
def test_the_exception_names_the_setting_that_the_first_refused_record_breaks(wrong, setting):
    error = refusal_of(a_batch_of({}, wrong))
    assert error.message.startswith("t-0: 1 of 2 records are refused. Record 1: Timestamp ")
    assert error.message.endswith(f"({setting})")


def test_a_record_without_a_timestamp_is_neither_too_old_nor_too_far_ahead():
    error = refusal_of(a_batch_of({"timestamp_ms": -1}, OLD))
    assert [each.index for each in error.record_errors] == [1]


def test_with_log_append_time_only_keys_are_checked():
    settings = {"message.timestamp.type": "LogAppendTime"}
    assert [each.index for each in refusal_of(a_batch_of(OLD, NO_KEY, AHEAD), **settings).record_errors] == [1]


@pytest.mark.parametrize(
    ("codec", "kind", "of_null"),
    [(CompressionType.NONE, "DefaultRecord", 0), (CompressionType.GZIP, "PartialDefaultRecord", -1)],
)
def test_a_batch_that_claims_log_append_time_is_refused_in_every_record(codec, kind, of_null):
    batch = a_batch(
        [a_record(0, key=b"five5"), a_record(1, key=None), a_record(2, key=b"", value=None)],
        compression=codec,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time_ms=SOME_TIME_MS,
    )
    error = refusal_of(batch, **{"message.timestamp.type": "LogAppendTime"})
    assert type(error) is InvalidTimestampError
    end = "Producer should not set timestamp type to LogAppendTime."
    assert error.record_errors == (
        RecordError(
            index=0,
            message=f"Invalid timestamp type in message {kind}(offset=0, timestamp={SOME_TIME_MS}, key=5 bytes,"
            f" value=7 bytes). {end}",
        ),
        RecordError(index=1, message="Compacted topic cannot accept message without key in topic partition t-0"),
        RecordError(
            index=2,
            message=f"Invalid timestamp type in message {kind}(offset=2, timestamp={SOME_TIME_MS}, key=0 bytes,"
            f" value={of_null} bytes). {end}",
        ),
    )


def test_a_batch_that_claims_log_append_time_and_has_only_records_without_keys_is_refused_for_its_keys():
    batch = a_batch_of(NO_KEY, NO_KEY, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=SOME_TIME_MS)
    error = refusal_of(batch, **{"message.timestamp.type": "LogAppendTime"})
    assert type(error) is InvalidRecordError
    assert [each.index for each in error.record_errors] == [0, 1]


def test_record_indexes_continue_across_the_batches_of_an_append():
    error = refusal_of(a_batch(3), a_batch_of({}, NO_KEY))
    assert [each.index for each in error.record_errors] == [4]


def test_timestamps_that_readers_cannot_represent_are_refused_on_every_topic():
    settings = {"message.timestamp.after.max.ms": str(2**63 - 1), "message.timestamp.before.max.ms": str(2**63 - 1)}
    error = refusal_of(a_batch_of({}, {"timestamp_ms": 2**62}), **settings)
    assert [(each.index, "microseconds of 64 bits" in each.message) for each in error.record_errors] == [(1, True)]


def test_the_list_of_refused_records_is_bounded(monkeypatch):
    monkeypatch.setattr(batch_validation, "MAX_RECORD_ERROR_COUNT", 2)
    monkeypatch.setattr("broker_core.log.record_refusals.MAX_RECORD_ERROR_COUNT", 2)
    error = refusal_of(a_batch_of(*[NO_KEY] * 5))
    assert [each.index for each in error.record_errors] == [0, 1]
    assert error.message.startswith("t-0: 2 or more of 5 records are refused")
