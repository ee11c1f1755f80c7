import pytest
from support.builders.log_builders import a_header, a_marker

from broker_core.log.append_plan import PlacedBatch, plan_runs, roll_jitter_ms
from broker_core.log.producer_state import CompletedTransaction
from broker_core.log.segment_index_feed import SegmentIndexFeed
from broker_core.log.sparse_index import OffsetPosition, TimestampOffset
from broker_core.model.topic_config import TopicConfig

NOW_MS = 1_000_000


def a_feed(*headers, base_offset=0, created_ms=NOW_MS, **more) -> SegmentIndexFeed:
    feed = SegmentIndexFeed(base_offset=base_offset, index_interval_bytes=4096, created_ms=created_ms, **more)
    for header in headers:
        feed.add(header)
    return feed


def placed(*headers, completed=None):
    position, batches = 0, []
    for header in headers:
        batches.append(PlacedBatch(header=header, marker=None, position=position, completed=completed))
        position += header.size_bytes
    return batches


def runs(feed, *headers, log_name="t-0", now_ms=NOW_MS, **settings):
    config = TopicConfig(**{"segment_bytes": 1_000, **settings})
    return plan_runs(feed, placed(*headers), config=config, now_ms=now_ms, log_name=log_name)


def test_a_batch_that_fits_goes_to_the_active_segment():
    (run,) = runs(a_feed(a_header(size_bytes=400)), a_header(base_offset=1, size_bytes=600))
    assert not run.is_roll
    assert (run.base_offset, run.file_position) == (0, 400)
    assert (run.from_position, run.until_position, run.feed.next_offset) == (0, 600, 2)


def test_one_more_byte_rolls_the_segment():
    (run,) = runs(a_feed(a_header(size_bytes=400)), a_header(base_offset=1, size_bytes=601))
    assert run.is_roll
    assert (run.base_offset, run.file_position) == (1, 0)
    assert run.closing_time_entry == TimestampOffset(timestamp_ms=1_000, offset=0)


def test_an_append_spans_as_many_segments_as_it_needs():
    headers = [a_header(base_offset=offset, size_bytes=400) for offset in range(5)]
    result = runs(a_feed(), *headers)
    assert [(run.is_roll, run.base_offset) for run in result] == [(False, 0), (True, 2), (True, 4)]
    assert [(run.from_position, run.until_position) for run in result] == [(0, 800), (800, 1600), (1600, 2000)]
    assert [len(run.headers) for run in result] == [2, 2, 1]


def test_an_empty_segment_accepts_a_first_batch_of_any_size_and_time():
    (run,) = runs(a_feed(created_ms=0), a_header(size_bytes=2_000, timestamp_ms=NOW_MS), segment_ms=1)
    assert not run.is_roll


def test_a_segment_rolls_when_a_batch_is_segment_ms_younger_than_its_first():
    feed = a_feed(a_header(timestamp_ms=5_000))
    assert not runs(feed, a_header(base_offset=1, timestamp_ms=5_100), segment_ms=100)[0].is_roll
    assert runs(feed, a_header(base_offset=1, timestamp_ms=5_101), segment_ms=100)[0].is_roll


def test_with_jitter_each_segment_rolls_earlier_by_its_own_amount():
    def rolls_after_ms(name, base_offset=0):
        feed = a_feed(a_header(base_offset=base_offset, timestamp_ms=5_000), base_offset=base_offset)
        header = {"base_offset": base_offset + 1}
        return next(
            ms
            for ms in range(102)
            if runs(
                feed, a_header(timestamp_ms=5_000 + ms, **header), log_name=name, segment_ms=100, segment_jitter_ms=40
            )[0].is_roll
        )

    of_partitions = {rolls_after_ms(f"t-{number}") for number in range(50)}
    assert of_partitions <= set(range(62, 102))
    assert len(of_partitions) > 15
    assert len({rolls_after_ms("t-0", base_offset) for base_offset in range(20)}) > 8
    assert rolls_after_ms("t-0") == rolls_after_ms("t-0")


def test_jitter_is_limited_to_the_age_of_a_segment():
    config = TopicConfig(segment_ms=10, segment_jitter_ms=1_000)
    assert {roll_jitter_ms(f"t-{number}", 0, config) for number in range(200)} == set(range(10))


def test_without_timestamps_the_age_of_the_segment_is_used():
    feed = a_feed(a_header(timestamp_ms=-1), created_ms=NOW_MS - 101)
    assert runs(feed, a_header(base_offset=1, timestamp_ms=-1), segment_ms=100)[0].is_roll
    assert not runs(feed, a_header(base_offset=1, timestamp_ms=-1), segment_ms=101)[0].is_roll
    unknown = a_feed(a_header(timestamp_ms=-1), created_ms=-1)
    assert not runs(unknown, a_header(base_offset=1, timestamp_ms=-1), segment_ms=1)[0].is_roll


@pytest.mark.parametrize(("counts", "rolls"), [((4, 3), True), ((3, 3), True), ((3, 2), True), ((3, 1), False)])
def test_a_full_index_rolls_the_segment_and_the_time_index_reserves_a_slot(counts, rolls):
    feed = a_feed(a_header())
    feed.offset_entry_count, feed.time_entry_count = counts
    assert runs(feed, a_header(base_offset=1), segment_index_bytes=36)[0].is_roll is rolls


def test_an_offset_too_far_from_the_base_offset_rolls_even_an_empty_segment():
    far = 2**31
    assert not runs(a_feed(a_header()), a_header(base_offset=far - 1))[0].is_roll
    assert runs(a_feed(a_header()), a_header(base_offset=far))[0].is_roll
    (run,) = runs(a_feed(), a_header(base_offset=far))
    assert run.is_roll and run.base_offset == far


def test_a_run_includes_its_index_entries():
    feed = a_feed(a_header(size_bytes=5_000))
    (run,) = runs(feed, a_header(base_offset=1, size_bytes=100, timestamp_ms=2_000), segment_bytes=10_000)
    assert run.offset_entries == (OffsetPosition(offset=1, position=5_000),)
    assert run.time_entries == (TimestampOffset(timestamp_ms=2_000, offset=1),)


def test_planning_does_not_change_the_feed():
    feed = a_feed(a_header())
    before = dict(vars(feed))
    runs(feed, a_header(base_offset=1, size_bytes=600), a_header(base_offset=2, size_bytes=600))
    assert vars(feed) == before


def test_aborted_transactions_belong_to_the_run_with_the_marker():
    aborted = CompletedTransaction(producer_id=7, first_offset=0, last_offset=1, is_aborted=True, last_stable_offset=2)
    plain, marker = placed(a_header(size_bytes=900), a_header(base_offset=1, size_bytes=200))
    batches = [plain, PlacedBatch(header=marker.header, marker=a_marker(), position=900, completed=aborted)]
    first, second = plan_runs(a_feed(), batches, config=TopicConfig(segment_bytes=1_000), now_ms=NOW_MS)
    assert first.aborted_transactions == ()
    assert [entry.last_offset for entry in second.aborted_transactions] == [1]
