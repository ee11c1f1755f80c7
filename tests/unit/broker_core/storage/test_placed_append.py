"""Batches at given offsets, in a partition's folder."""

import pytest
from support.builders.builders import SOME_TIME_MS, a_batch
from support.builders.store_builders import DIRECTORY, PARTITION, a_disk, a_store, append, offsets_in

from broker_core.model.exceptions import CorruptBatchError, RecordTooLargeError, UnexpectedLogEndError
from broker_core.placed_writes import PlacedAppend


def place(store, from_offset, until_offset, *batches, log_start=None):
    store.refresh()
    appended = PlacedAppend(
        partition=PARTITION,
        from_offset=from_offset,
        until_offset=until_offset,
        batches=bytearray(b"".join(batches)),
        log_start_offset=log_start,
    )
    store.append_placed(appended, now_ms=SOME_TIME_MS)


def log_files(fs):
    return sorted(name for name in fs.list_directory(DIRECTORY) if name.endswith(".log"))


def damage_in(store):
    return [finding for finding in store.verify() if finding.is_damage]


def test_offsets_and_gaps_are_kept_and_are_no_damage():
    fs = a_disk()
    store = a_store(fs)
    place(store, 0, 8, a_batch(2, base_offset=1), a_batch(3, base_offset=5))
    assert offsets_in(store) == [1, 2, 5, 6, 7]
    assert append(store).result.base_offset == 8
    for opened in (a_store(fs), a_store(fs, writable=False)):
        assert offsets_in(opened) == [1, 2, 5, 6, 7, 8, 9, 10]
        assert not damage_in(opened)


def test_a_missing_batch_behind_the_gaps_is_damage_as_before():
    fs = a_disk()
    store = a_store(fs)
    place(store, 0, 4, a_batch(2, base_offset=1))
    append(store)
    append(store)
    path = f"{DIRECTORY}/{log_files(fs)[-1]}"
    content = bytearray(fs.content(path))
    content[7] += 1  # the base offset, which no checksum covers
    file = fs.open(path, writable=True)
    file.write_at(0, content)
    assert damage_in(a_store(fs, writable=False))


def test_a_log_that_begins_above_its_end_has_a_segment_of_that_name_only():
    fs = a_disk()
    store = a_store(fs)
    place(store, 0, 1003, a_batch(3, base_offset=1000), log_start=1000)
    assert log_files(fs) == [f"{1000:020}.log"]
    assert (store.bounds().log_start_offset, store.bounds().log_end_offset) == (1000, 1003)
    assert offsets_in(a_store(fs)) == [1000, 1001, 1002]


def test_a_log_start_in_the_middle_of_a_batch_keeps_the_whole_batch():
    store = a_store()
    place(store, 0, 1003, a_batch(3, base_offset=1000), log_start=1001)
    assert store.bounds().log_start_offset == 1001
    assert [offset for offset in offsets_in(store) if offset >= 1001] == [1001, 1002]


def test_an_empty_log_can_end_anywhere():
    fs = a_disk()
    store = a_store(fs)
    place(store, 0, 5000, log_start=5000)
    bounds = a_store(fs, writable=False).bounds()
    assert (bounds.log_start_offset, bounds.log_end_offset) == (5000, 5000)
    assert append(store).result.base_offset == 5000


def test_a_gap_at_the_end_is_an_empty_segment_and_survives_a_restart():
    fs = a_disk()
    store = a_store(fs)
    place(store, 0, 10, a_batch(3))
    assert log_files(fs) == [f"{0:020}.log", f"{10:020}.log"]
    store.close()
    fs.restart()
    again = a_store(fs)
    again.refresh()
    assert again.bounds().log_end_offset == 10
    place(again, 10, 12)
    place(again, 12, 14, a_batch(2, base_offset=12))
    assert offsets_in(a_store(fs)) == [0, 1, 2, 12, 13]
    assert not damage_in(a_store(fs))


def test_offsets_further_apart_than_an_index_can_tell_begin_a_segment():
    fs = a_disk()
    store = a_store(fs)
    place(store, 0, 2**33 + 1, a_batch(1), a_batch(1, base_offset=2**33))
    assert log_files(fs) == [f"{0:020}.log", f"{2**33:020}.log"]
    assert offsets_in(a_store(fs)) == [0, 2**33]


def test_batches_from_before_a_limit_was_lowered_are_accepted():
    fs = a_disk()
    limits = {"max.message.bytes": "10", "internal.segment.bytes": "100"}
    store = a_store(fs, **limits)
    place(store, 0, 6, a_batch(3), a_batch(3, base_offset=3))
    assert log_files(fs) == [f"{0:020}.log", f"{3:020}.log"]
    assert offsets_in(a_store(fs, **limits)) == list(range(6))
    with pytest.raises(RecordTooLargeError):
        append(store)


@pytest.mark.parametrize("from_offset", [0, 5])
def test_another_log_end_is_refused(from_offset):
    store = a_store()
    append(store)
    with pytest.raises(UnexpectedLogEndError, match=f"ends at offset 3, not at {from_offset}"):
        place(store, from_offset, from_offset + 3, a_batch(3, base_offset=from_offset))
    assert offsets_in(store) == [0, 1, 2]


@pytest.mark.parametrize(
    "batches",
    [
        [a_batch(3, base_offset=2), a_batch(1, base_offset=4)],
        [a_batch(3, base_offset=8)],
    ],
    ids=["overlapping", "above the end"],
)
def test_batches_that_do_not_fit_are_refused(batches):
    store = a_store()
    with pytest.raises(CorruptBatchError, match="is not in order"):
        place(store, 0, 10, *batches)
    assert offsets_in(store) == []


def test_a_batch_with_a_wrong_checksum_is_refused():
    store = a_store()
    batch = a_batch(3)
    batch[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="checksum"):
        place(store, 0, 3, batch)
    assert offsets_in(store) == []
