import pyarrow as pa
import pytest

from broker_core.model.topic_config import TopicConfig
from broker_core.record.expired_rows import ExpiredRows, expired_rows

NOW_MS = 1_700_000_000_000
WEEK_MS = 604_800_000
LIMIT_MS = NOW_MS - WEEK_MS
PER_MS = {"ms": 1, "us": 1000, "ns": 1_000_000}


def rows(times, kind):
    return pa.RecordBatch.from_pydict({"timestamp": pa.array(times, pa.int64()).cast(kind)})


@pytest.mark.parametrize("unit", PER_MS)
def test_rows_older_than_the_retention_are_counted_whatever_the_unit(unit):
    times = [each * PER_MS[unit] for each in (LIMIT_MS - 1, LIMIT_MS, NOW_MS, LIMIT_MS - 5000)]
    found = expired_rows(rows([*times, None], pa.timestamp(unit, tz="UTC")), TopicConfig(), now_ms=NOW_MS)
    assert found == ExpiredRows(row_count=2, oldest_ms=LIMIT_MS - 5000, retention_ms=WEEK_MS)


def test_a_fraction_of_a_millisecond_is_older():
    times = [LIMIT_MS * 1000 - 1, LIMIT_MS * 1000]
    found = expired_rows(rows(times, pa.timestamp("us")), TopicConfig(), now_ms=NOW_MS)
    assert found is not None
    assert found.row_count == 1


def test_seconds_and_plain_milliseconds_are_times_too():
    config = TopicConfig.from_strings({"retention.ms": "1500"})
    for times, kind in (([8, 9, 10], pa.timestamp("s")), ([8000, 9000, 10_000], pa.int64())):
        assert expired_rows(rows(times, kind), config, now_ms=10_000) == ExpiredRows(
            row_count=1, oldest_ms=8000, retention_ms=1500
        )


@pytest.mark.parametrize(
    "settings",
    [
        {"retention.ms": "-1"},
        {"cleanup.policy": "compact"},
        {"message.timestamp.type": "LogAppendTime"},
        {"retention.ms": str(NOW_MS)},
    ],
    ids=str,
)
def test_a_topic_that_keeps_old_records_has_none(settings):
    assert expired_rows(rows([0, 5], pa.int64()), TopicConfig.from_strings(settings), now_ms=NOW_MS) is None


def test_rows_without_times_are_of_now():
    assert expired_rows(rows([None, None], pa.int64()), TopicConfig(), now_ms=NOW_MS) is None
    assert expired_rows(pa.RecordBatch.from_pydict({"value": ["a"]}), TopicConfig(), now_ms=NOW_MS) is None


def test_counts_of_several_rounds_are_added():
    first, second = (ExpiredRows(row_count=n, oldest_ms=10 - n, retention_ms=5) for n in (1, 2))
    assert first + second == ExpiredRows(row_count=3, oldest_ms=8, retention_ms=5)
