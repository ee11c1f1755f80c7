from hypothesis import given
from hypothesis import strategies as st
from support.builders.log_builders import a_header

from broker_core.log.segment_index_feed import SegmentIndexFeed
from broker_core.log.sparse_index import OffsetPosition, TimestampOffset


def fed(*sizes_and_times: tuple[int, int], interval: int = 250):
    feed = SegmentIndexFeed(base_offset=10, index_interval_bytes=interval)
    entries = [
        feed.add(a_header(base_offset=10 + 5 * slot, records=5, size_bytes=size, timestamp_ms=timestamp))
        for slot, (size, timestamp) in enumerate(sizes_and_times)
    ]
    return feed, entries


def test_an_index_entry_is_added_after_more_than_the_interval():
    feed, entries = fed((100, 1), (100, 2), (100, 3), (100, 4), (100, 5))
    assert [entry.offset_entry for entry in entries[:3]] == [None, None, None]
    assert entries[3].offset_entry == OffsetPosition(offset=29, position=300)
    assert entries[3].time_entry == TimestampOffset(timestamp_ms=4, offset=29)
    assert (feed.size_bytes, feed.next_offset, feed.offset_entry_count, feed.bytes_since_entry) == (500, 35, 1, 200)


def test_the_first_batch_of_a_segment_is_never_indexed():
    _, entries = fed((10_000, 1), (100, 2))
    assert entries[0].offset_entry is None
    assert entries[1].offset_entry == OffsetPosition(offset=19, position=10_000)


def test_the_time_entry_refers_to_the_batch_with_the_largest_timestamp_so_far():
    _, entries = fed((300, 50), (300, 90), (300, 90), (300, 7))
    assert [entry.time_entry for entry in entries] == [None, TimestampOffset(timestamp_ms=90, offset=19), None, None]
    assert entries[3].offset_entry is not None


def test_closing_writes_the_last_time_entry_once():
    feed, _ = fed((300, 50), (300, 60), (300, 70))
    assert feed.close() is None
    feed, _ = fed((100, 50), (100, 40))
    assert feed.close() == TimestampOffset(timestamp_ms=50, offset=14)
    assert feed.close() is None


def test_batches_without_timestamps_give_no_time_entry():
    feed, entries = fed((300, -1), (300, -1))
    assert entries[1].offset_entry is not None
    assert entries[1].time_entry is None
    assert feed.close() is None


def test_segment_age_starts_at_the_first_batch():
    feed, _ = fed((100, 50), (100, 40))
    assert feed.first_timestamp_ms == 50


@given(st.lists(st.tuples(st.integers(61, 400), st.integers(-1, 99)), max_size=40), st.integers(0, 40))
def test_a_copy_continues_like_the_feed(batches, split):
    whole, entries = fed(*batches)
    feed = SegmentIndexFeed(base_offset=10, index_interval_bytes=250)
    again = []
    for slot, (size, timestamp) in enumerate(batches):
        if slot == split:
            feed = feed.copy()
        again.append(feed.add(a_header(base_offset=10 + 5 * slot, records=5, size_bytes=size, timestamp_ms=timestamp)))
    assert again == entries
    assert feed.close() == whole.close()
    assert vars(feed) == vars(whole)
