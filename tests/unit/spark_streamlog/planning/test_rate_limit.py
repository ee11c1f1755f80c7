import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.planning.rate_limit import NEVER_MS, limit_offsets, must_wait, new_offset_count

MAX_LONG = 2**63 - 1


def vector(*offsets):
    return {TopicPartition("t", number): offset for number, offset in enumerate(offsets)}


@pytest.mark.parametrize(
    ("limit", "begin", "latest", "expected"),
    [
        (10, (0, 0, 0), (101, 11, 1), (8, 1, 1)),
        (10, (8, 1, 1), (101, 11, 1), (17, 2, 1)),
        (20, (0, 0, 0), (21, 11, 1), (12, 6, 1)),
        (5, (0,), (15,), (5,)),
        (5, (10,), (12,), (12,)),
        (1, (0, 0), (100, 100), (1, 1)),
        (MAX_LONG, (5,), (10,), (10,)),
        (MAX_LONG, (MAX_LONG - 3,), (MAX_LONG,), (MAX_LONG,)),
        (10, (0, 20), (100, 5), (10, 5)),
    ],
)
def test_the_limit_is_shared_in_proportion_to_size(limit, begin, latest, expected):
    assert limit_offsets(limit, vector(*begin), vector(*latest)) == vector(*expected)


def test_a_partition_without_a_begin_keeps_its_latest():
    assert limit_offsets(3, {}, vector(100)) == vector(100)


@given(
    limit=st.integers(1, MAX_LONG),
    bounds=st.lists(st.tuples(st.integers(0, MAX_LONG), st.integers(0, MAX_LONG)).map(sorted), min_size=1, max_size=6),
)
def test_every_partition_with_new_records_advances_and_none_past_its_end(limit, bounds):
    begin, latest = vector(*(b for b, _ in bounds)), vector(*(e for _, e in bounds))
    ends = limit_offsets(limit, begin, latest)
    for tp, end in ends.items():
        assert begin[tp] <= end <= latest[tp]
        assert end > begin[tp] or latest[tp] == begin[tp]
    assert sum(ends[tp] - begin[tp] for tp in ends) <= limit + len(ends)


def test_repeated_batches_reach_the_end():
    begin, latest = vector(0, 0, 0), vector(101, 11, 1)
    batches = 0
    while begin != latest and batches < 100:
        begin = limit_offsets(10, begin, latest)
        batches += 1
    assert batches <= math.ceil(113 / 8)


def test_new_offsets_are_counted_from_the_begin_of_each_partition():
    assert new_offset_count(vector(5, 10), vector(8, 3)) == 3


@pytest.mark.parametrize(
    ("new_count", "last_batch_ms", "now_ms", "waits"),
    [
        (14, 0, 100, True),
        (15, 0, 100, False),
        (16, 0, 100, False),
        (0, 0, 4_999, True),
        (0, 0, 5_000, False),
        (0, NEVER_MS, 0, False),
    ],
)
def test_a_batch_waits_for_the_minimum_or_the_maximum_delay(new_count, last_batch_ms, now_ms, waits):
    assert (
        must_wait(new_count=new_count, min_offsets=15, last_batch_ms=last_batch_ms, now_ms=now_ms, max_delay_ms=5_000)
        is waits
    )
