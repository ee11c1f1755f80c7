import pickle

from support.objects.object_builders import LOG_ID, TOPIC_ID, a_commit, a_range, a_topic, an_append

from broker_core.object_log.log_image import LogImage
from broker_core.object_log.read_plan import (
    MAX_PLANNED_READ_COUNT,
    PlannedRead,
    decode_reads,
    encode_reads,
    plan_fetch_steps,
    plan_read,
)


def a_read(number, **fields):
    values = {"object": f"data/{number}", "position": number, "size_bytes": 5, "base_offset": number, "offset_count": 1}
    return PlannedRead(**(values | fields))


def test_a_plan_arrives_as_it_was_sent():
    reads = (a_read(1), a_read(2, object="data/1", size_bytes=2**40), a_read(2**62, position=0))
    for each in ((), reads[:1], reads):
        assert decode_reads(pickle.loads(pickle.dumps(encode_reads(each)))) == each


def test_the_plan_of_a_hundred_thousand_ranges_is_small_and_whole_from_its_start():
    image = LogImage(LOG_ID)
    image.apply(a_commit(1, a_topic(partitions=1)))
    image.apply(a_commit(2, an_append(*(a_range(number) for number in range(100_000)))))
    partition = image.partition(TOPIC_ID, 0)
    assert len(plan_read(partition, 0, 1_000_000)) == 100_000
    reads = plan_read(partition, 5, 1_000_000, max_count=MAX_PLANNED_READ_COUNT)
    assert len(reads) == MAX_PLANNED_READ_COUNT
    assert [read.base_offset for read in reads] == list(range(0, 10 * MAX_PLANNED_READ_COUNT, 10))
    assert len(encode_reads(reads)) < 40 * MAX_PLANNED_READ_COUNT
    few = plan_read(partition, 500_000, 500_030)
    assert len(few) == 3 and len(encode_reads(few)) < 300


def steps(*sizes_bytes, start=0, until=10**6, max_bytes=10, ahead_bytes=30):
    """Of ranges of ten offsets each with these sizes, as (from offset, next offset, bytes)."""
    reads = [
        a_read(row, size_bytes=size, base_offset=10 * row, offset_count=10) for row, size in enumerate(sizes_bytes)
    ]
    return [tuple(one) for one in plan_fetch_steps(reads, start, until, max_bytes=max_bytes, ahead_bytes=ahead_bytes)]


def test_each_fetch_takes_the_ranges_that_fit_together():
    assert steps(4, 6, 5, 6) == [(0, 20, 10), (20, 30, 5), (30, 40, 6)]


def test_a_range_of_up_to_twice_the_size_is_one_fetch():
    assert steps(20, 5) == [(0, 10, 20), (10, 20, 5)]


def test_the_fetch_after_a_part_of_a_larger_range_is_not_known():
    assert steps(5, 21, 5) == [(0, 10, 5), (10, 10, 10)]


def test_a_fetch_from_within_a_range_reads_it_from_its_start():
    assert steps(9, 9, start=3) == [(3, 10, 9), (10, 20, 9)]


def test_the_fetches_end_where_the_next_one_would_be_too_much_or_is_not_wanted():
    assert steps(10, 10, 10, 10, ahead_bytes=29) == [(0, 10, 10), (10, 20, 10)]
    assert steps(10, 10, 10, until=11) == [(0, 10, 10), (10, 20, 10)]
    assert steps(10, 10, ahead_bytes=1) == [(0, 10, 10)], "the first one is told in any case"
    assert steps(10, start=10) == steps(10, until=0) == steps() == []
