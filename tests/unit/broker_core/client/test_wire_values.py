from datetime import UTC, datetime, timedelta

from broker_core.client.deadline import Deadline
from broker_core.client.wire_values import duration, milliseconds, numbers_by_topic, remaining
from broker_core.model.identifiers import TopicPartition


def test_durations_are_limited_to_the_range_of_the_wire_format():
    assert duration(1500) == timedelta(milliseconds=1500)
    assert duration(-1) == timedelta(0)
    assert duration(2**40) == timedelta(milliseconds=2**31 - 1)
    assert timedelta(0) <= remaining(Deadline(10_000, setting="x"), 500) <= timedelta(milliseconds=500)


def test_timestamps_and_durations_are_exact_milliseconds():
    assert milliseconds(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=1_795_840_361_866)) == (
        1_795_840_361_866
    )
    assert milliseconds(datetime(1970, 1, 1, tzinfo=UTC) - timedelta(milliseconds=1)) == -1
    assert milliseconds(timedelta(seconds=2)) == 2000
    assert milliseconds(None) == -1


def test_partitions_are_grouped_by_topic():
    given = [TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("b", 0)]
    assert numbers_by_topic(given) == {"a": [2], "b": [0, 1]}
