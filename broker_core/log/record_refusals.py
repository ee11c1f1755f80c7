"""Errors for each record that a topic refuses: without a key in a compacted topic, or with a timestamp that is too old
or too far ahead. A batch with such a record is refused as a whole; the answer lists these records for the producer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from broker_core.model.exceptions import InvalidRecordError, InvalidTimestampError
from broker_core.model.limits import MAX_RECORD_ERROR_COUNT
from broker_core.model.record_error import RecordError
from broker_core.model.topic_config import TopicConfig
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
        RecordError(index=first_index + index, message=_NO_KEY if is_keyless else _what_is_wrong(timestamp_ms, limits))
        for index, is_keyless, timestamp_ms in refused
    )
    is_about_time = any(not is_keyless for _, is_keyless, _ in refused)
    count = f"{len(errors)} or more" if len(errors) == MAX_RECORD_ERROR_COUNT else str(len(errors))
    message = f"{name}: {count} of {record_count} records are refused. Record {errors[0].index}: {errors[0].message}"
    return (InvalidTimestampError if is_about_time else InvalidRecordError)(message, record_errors=errors)


def refusal_of_timestamp_type(name: str, record_count: int, *, first_index: int = 0) -> InvalidTimestampError:
    """For a client's batch with the timestamp type LogAppendTime: each of its records has this error."""
    message = "a producer may not set the timestamp type to LogAppendTime"
    indices = range(first_index, first_index + min(record_count, MAX_RECORD_ERROR_COUNT))
    errors = tuple(RecordError(index=index, message=message) for index in indices)
    return InvalidTimestampError(f"{name}: {message}", record_errors=errors)


_NO_KEY: Final = "it has no key, but a compacted topic (cleanup.policy=compact) requires one"


def _what_is_wrong(timestamp_ms: int, limits: TimestampLimits) -> str:
    ahead_ms = timestamp_ms - limits.now_ms
    if ahead_ms > limits.after_ms:
        return (
            f"its timestamp {timestamp_ms} is {ahead_ms} ms ahead of now, more than"
            f" message.timestamp.after.max.ms={limits.after_ms} allows"
        )
    if -ahead_ms > limits.before_ms:
        return (
            f"its timestamp {timestamp_ms} is {-ahead_ms} ms old, more than"
            f" message.timestamp.before.max.ms={limits.before_ms} allows"
        )
    return f"its timestamp {timestamp_ms} ms does not fit microseconds of 64 bits; was it written in another unit?"
