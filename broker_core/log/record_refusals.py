"""Errors for each record that a topic refuses: without a key in a compacted topic, or with a timestamp that is too old
or too far ahead. A batch with such a record is refused as a whole; the answer lists these records for the producer.

A record's text and the summary on the wire are those of Kafka 4.3. The exception's own message names the setting, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from broker_core.model.exceptions import InvalidRecordError, InvalidTimestampError, StreamlogError
from broker_core.model.limits import MAX_RECORD_ERROR_COUNT
from broker_core.model.record_error import RecordError
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_reader import Record
from broker_core.record.kernel_protocol import MAX_INT64, TIMESTAMP_MS_LIMIT


class TimestampLimits(NamedTuple):
    """The timestamps in ms that a topic accepts at `now_ms`: from `earliest_ms` to `latest_ms`, both inclusive."""

    earliest_ms: int
    latest_ms: int
    now_ms: int = 0
    before_ms: int = MAX_INT64
    after_ms: int = MAX_INT64


NO_LIMITS: Final = TimestampLimits(-MAX_INT64 - 1, MAX_INT64)


def timestamp_limits(config: TopicConfig, now_ms: int) -> TimestampLimits:
    """Timestamps that readers cannot represent in microseconds are always refused."""
    before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    return TimestampLimits(
        earliest_ms=max(now_ms - before_ms, -TIMESTAMP_MS_LIMIT),
        latest_ms=min(now_ms + after_ms, TIMESTAMP_MS_LIMIT),
        now_ms=now_ms,
        before_ms=before_ms,
        after_ms=after_ms,
    )


def refusal_of_records(
    name: str,
    refused: Sequence[tuple[int, bool, int]],
    record_count: int,
    limits: TimestampLimits,
    *,
    first_index: int = 0,
) -> InvalidRecordError:
    """`refused`: the result of `Kernel.find_refused`, at least one. `name` is the topic-partition. `first_index`: the
    number of records before the batch in the append."""
    errors = tuple(
        RecordError(
            index=first_index + index,
            message=_no_key(name) if is_keyless else _what_is_wrong(first_index + index, timestamp_ms, limits),
        )
        for index, is_keyless, timestamp_ms in refused
    )
    _, first_is_keyless, first_ms = refused[0]
    setting = "cleanup.policy=compact" if first_is_keyless else _setting(first_ms, limits)
    is_about_time = any(not is_keyless for _, is_keyless, _ in refused)
    return _refusal(name, errors, record_count, setting, is_about_time=is_about_time)


def refusal_of_timestamp_type(
    name: str,
    records: Iterable[Record],
    record_count: int,
    *,
    needs_key: bool,
    is_compressed: bool,
    first_index: int = 0,
) -> InvalidRecordError:
    """For a client's batch with the timestamp type LogAppendTime, of at least one record: each has this error, or that
    it has no key. The texts are Kafka's, down to the names of its classes."""
    errors = []
    is_about_time = False
    for index, record in enumerate(islice(records, MAX_RECORD_ERROR_COUNT), first_index):
        is_keyless = needs_key and record.key is None
        is_about_time |= not is_keyless
        text = _no_key(name) if is_keyless else _wrong_type(index, record, is_compressed=is_compressed)
        errors.append(RecordError(index=index, message=text))
    return _refusal(
        name, tuple(errors), record_count, "message.timestamp.type=LogAppendTime", is_about_time=is_about_time
    )


def summary_of(error: StreamlogError) -> str:
    """What Kafka answers for the batch beside its `record_errors`, of which there is at least one."""
    assert isinstance(error, InvalidRecordError) and error.record_errors, error
    if isinstance(error, InvalidTimestampError):
        return "One or more records have been rejected due to invalid timestamp"
    shown = ", ".join(
        f"RecordError(batchIndex={one.index}, message='{one.message}')" for one in error.record_errors[:_SHOWN_COUNT]
    )
    return (
        f"One or more records have been rejected due to {len(error.record_errors)} record errors in total, and only"
        f" showing the first three errors at most: [{shown}]"
    )


_SHOWN_COUNT: Final = 3


def _refusal(
    name: str, errors: tuple[RecordError, ...], record_count: int, setting: str, *, is_about_time: bool
) -> InvalidRecordError:
    count = f"{len(errors)} or more" if len(errors) == MAX_RECORD_ERROR_COUNT else str(len(errors))
    first = errors[0]
    message = (
        f"{name}: {count} of {record_count} records are refused. Record {first.index}: {first.message} ({setting})"
    )
    return (InvalidTimestampError if is_about_time else InvalidRecordError)(message, record_errors=errors)


def _no_key(name: str) -> str:
    return f"Compacted topic cannot accept message without key in topic partition {name}"


def _what_is_wrong(offset: int, timestamp_ms: int, limits: TimestampLimits) -> str:
    earliest_ms, latest_ms = limits.now_ms - limits.before_ms, limits.now_ms + limits.after_ms
    if earliest_ms <= timestamp_ms <= latest_ms:
        return f"{timestamp_ms} ms does not fit microseconds of 64 bits; was the timestamp written in another unit?"
    return (
        f"Timestamp {timestamp_ms} of message with offset {offset} is out of range. The timestamp should be within"
        f" [{earliest_ms}, {latest_ms}]"
    )


def _setting(timestamp_ms: int, limits: TimestampLimits) -> str:
    if timestamp_ms > limits.now_ms:
        return f"message.timestamp.after.max.ms={limits.after_ms}"
    return f"message.timestamp.before.max.ms={limits.before_ms}"


def _wrong_type(offset: int, record: Record, *, is_compressed: bool) -> str:
    if is_compressed:
        kind, key_bytes, value_bytes = "PartialDefaultRecord", _size(record.key, -1), _size(record.value, -1)
    else:
        kind, key_bytes, value_bytes = "DefaultRecord", _size(record.key, 0), _size(record.value, 0)
    return (
        f"Invalid timestamp type in message {kind}(offset={offset}, timestamp={record.timestamp_ms}, key={key_bytes}"
        f" bytes, value={value_bytes} bytes). Producer should not set timestamp type to LogAppendTime."
    )


def _size(data: bytes | None, of_null: int) -> int:
    return of_null if data is None else len(data)
