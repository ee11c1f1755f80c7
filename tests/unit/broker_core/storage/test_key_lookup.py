from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from support.builders.store_builders import SMALL_SEGMENTS, a_disk, a_store, append, keyed, make_key_filters, records_in

KEYS = [b"%d" % (n // 9 % 4) for n in range(72)]


def a_log():
    """Runs of nine records with the same key, so that a segment holds two or three keys."""
    store = a_store(a_disk(), **SMALL_SEGMENTS)
    for start in range(0, len(KEYS), 3):
        append(store, keyed(*KEYS[start : start + 3]))
    make_key_filters(store)
    return store


LOG = a_log()
END = len(KEYS)


@given(st.tuples(st.integers(0, END), st.integers(0, END)).map(sorted), st.sampled_from([*sorted(set(KEYS)), b"none"]))
def test_every_record_with_the_key_is_in_a_range_and_the_rest_is_skipped(between, key):
    from_offset, until_offset = between
    found = LOG.ranges_with_key(key, from_offset, until_offset)
    with_key = [r.offset for r in records_in(LOG) if r.key == key and from_offset <= r.offset < until_offset]
    assert all(any(first <= offset < until for first, until in found.ranges) for offset in with_key)
    # Ascending, apart from each other, and within what was asked.
    assert all(until < following for (_, until), (following, _) in pairwise(found.ranges))
    assert all(from_offset <= first < until <= until_offset for first, until in found.ranges)
    # What is not in a range is a run of whole segments, but for its ends.
    bases = {s.base_offset for s in LOG.segments()} | {from_offset, until_offset}
    assert {edge for between in found.ranges for edge in between} <= bases
    kept_bytes = sum(LOG.bytes_between(first, until) for first, until in found.ranges)
    assert LOG.bytes_between(from_offset, until_offset) <= found.skipped_bytes + kept_bytes


def test_a_missing_key_leaves_only_the_active_segment():
    active = LOG.segments()[-1]
    found = LOG.ranges_with_key(b"none", 0, END)
    assert found.ranges == ((active.base_offset, END),)
    assert found.skipped_bytes == LOG.bytes_between(0, active.base_offset)


def test_a_range_in_the_middle_of_a_segment_skips_its_own_bytes_only():
    first, second, *_ = LOG.segments()
    found = LOG.ranges_with_key(b"none", first.next_offset - 1, first.next_offset + 1)
    assert found.ranges == ()
    assert found.skipped_bytes == LOG.bytes_between(first.next_offset - 1, first.next_offset + 1)
    assert 0 < found.skipped_bytes < first.size_bytes + second.size_bytes


def test_offsets_that_no_segment_covers_are_part_of_the_ranges():
    store = a_log()
    store.refresh()
    store.delete_records(store.segments()[2].base_offset)
    start = store.bounds().log_start_offset
    found = store.ranges_with_key(b"none", 0, END + 10)
    assert found.ranges == ((0, start), (store.segments()[-1].base_offset, END + 10))


def test_an_empty_range_has_no_ranges():
    assert LOG.ranges_with_key(KEYS[0], 5, 5).ranges == ()
