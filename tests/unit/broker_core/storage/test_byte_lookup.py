import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.builders import a_batch
from support.builders.store_builders import DIRECTORY, SMALL_SEGMENTS, a_disk, a_store, append, files_of
from support.runs.examples import examples

from broker_core.record.batch_reader import iter_headers


def a_log(record_counts, **configs):
    store = a_store(a_disk(), **(SMALL_SEGMENTS | configs))
    for count in record_counts:
        append(store, a_batch(count))
    return store


def batches_of(store):
    """(base offset, next offset, bytes) of every batch."""
    offset, found = store.bounds().log_start_offset, []
    while offset < store.bounds().log_end_offset:
        fetched = store.read(offset, max_bytes=1 << 20)
        found += [(h.base_offset, h.next_offset, h.size_bytes) for _, h in iter_headers(fetched.buffer)]
        offset = fetched.next_offset
    return found


def bytes_by_walking(batches, from_offset, until_offset):
    if from_offset == until_offset:
        return 0
    return sum(size for base, following, size in batches if following > from_offset and base < until_offset)


def offset_by_walking(batches, from_offset, until_offset, max_bytes):
    reached, left_bytes = None, max_bytes
    for base, following, size in batches:
        if following > from_offset and base < until_offset:
            left_bytes -= size
            if reached is not None and left_bytes < 0:
                return reached
            reached = min(following, until_offset)
    return until_offset


LOG = a_log([1, 5, 2, 9, 1, 1, 1, 30, 3, 4, 2, 2, 8, 1, 6])
BATCHES = batches_of(LOG)
END = BATCHES[-1][1]
COMPACTED = a_log([3] * 14, **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
COMPACTED.refresh()
COMPACTED.compact(10**15, memory_bytes=1 << 20)
LEFT = batches_of(COMPACTED)

offsets = st.tuples(st.integers(0, END), st.integers(0, END)).map(sorted)


def test_the_test_logs_have_several_segments_and_one_has_gaps():
    assert len(LOG.segments()) > 3
    assert len(LEFT) < 14 and len(COMPACTED.segments()) > 2
    assert LEFT[0][0] > 0, "a gap at the beginning is a gap"


@examples(150)
@given(offsets, st.integers(1, 3000))
def test_an_offset_found_by_bytes_matches_a_full_walk(between, max_bytes):
    from_offset, until_offset = between
    if from_offset < until_offset:
        expected = offset_by_walking(BATCHES, from_offset, until_offset, max_bytes)
        assert LOG.find_offset_within_bytes(from_offset, until_offset, max_bytes) == expected


@given(offsets)
def test_the_bytes_between_offsets_are_the_sum_of_their_batches(between):
    assert LOG.bytes_between(*between) == bytes_by_walking(BATCHES, *between)


@examples(150)
@given(st.tuples(st.integers(0, 42), st.integers(0, 42)).map(sorted), st.integers(1, 3000))
def test_gaps_of_compaction_count_as_zero_bytes(between, max_bytes):
    from_offset, until_offset = between
    assert COMPACTED.bytes_between(*between) == bytes_by_walking(LEFT, *between)
    if from_offset < until_offset:
        expected = offset_by_walking(LEFT, from_offset, until_offset, max_bytes)
        assert COMPACTED.find_offset_within_bytes(from_offset, until_offset, max_bytes) == expected


def test_at_least_one_batch_is_included_and_later_ones_stay_within_the_limit():
    from_offset, seen = 0, []
    while from_offset < END:
        until = LOG.find_offset_within_bytes(from_offset, END, 500)
        assert until > from_offset
        seen.append((from_offset, until, LOG.bytes_between(from_offset, until)))
        from_offset = until
    bases = {base for base, _, _ in BATCHES}
    assert all(first in bases for first, _, _ in seen)
    assert all(size <= 500 or sum(first <= base < until for base in bases) == 1 for first, until, size in seen)


def test_a_range_after_the_log_end_is_empty_and_one_below_the_start_begins_at_the_start():
    store = a_log([3] * 15)
    store.refresh()
    store.delete_records(store.segments()[2].base_offset)
    start = store.bounds().log_start_offset
    assert store.bytes_between(0, start) == 0
    assert store.bytes_between(0, 45) == store.bytes_between(start, 45) > 0
    assert store.find_offset_within_bytes(0, 45, 1) == start + 3
    assert store.bytes_between(45, 99) == 0
    assert store.find_offset_within_bytes(40, 99, 10**9) == 99
    assert store.find_offset_within_bytes(45, 99, 1) == 99


@pytest.mark.parametrize("damage", ["missing", "cut", "zeros", "foreign"])
def test_a_wrong_index_changes_no_result(damage):
    fs = a_disk()
    store = a_store(fs, **(SMALL_SEGMENTS | {"internal.segment.bytes": "5000"}))
    for _ in range(60):
        append(store, a_batch(2))
    batches = batches_of(store)
    for path in files_of(fs, "index"):
        if damage == "missing":
            fs.remove(path)
        else:
            content = fs.content(path)
            other = b"".join(content[n : n + 4] + b"\0\0\3\3" for n in range(0, len(content), 8))
            fs.overwrite(path, {"cut": content[:12], "zeros": bytes(len(content)), "foreign": other}[damage])
    reader = a_store(fs, writable=False)
    for from_offset, until_offset in ((0, 120), (7, 101), (60, 61)):
        assert reader.bytes_between(from_offset, until_offset) == bytes_by_walking(batches, from_offset, until_offset)
        for max_bytes in (1, 700, 2500, 9000):
            expected = offset_by_walking(batches, from_offset, until_offset, max_bytes)
            assert reader.find_offset_within_bytes(from_offset, until_offset, max_bytes) == expected


def test_the_middle_of_a_long_segment_is_found_without_walking_to_it():
    fs = a_disk()
    store = a_store(fs, **{"index.interval.bytes": "1000"})
    for _ in range(400):
        append(store, a_batch(10))
    end = store.bounds().log_end_offset
    log_bytes = len(fs.content(f"{DIRECTORY}/00000000000000000000.log"))
    reader = a_store(fs, writable=False, **{"index.interval.bytes": "1000"})
    reader.bytes_between(0, end)
    before = fs.read_count
    reached = reader.find_offset_within_bytes(0, end, log_bytes // 2)
    assert abs(reached - end // 2) <= 20
    assert fs.read_count - before < 12
