import pytest
from support.builders.builders import (
    SOME_TIME_MS,
    a_batch,
    a_commit_marker,
    a_log,
    a_record,
    a_transactional_batch,
    an_abort_marker,
)
from support.builders.store_builders import (
    DIRECTORY,
    SMALL_SEGMENTS,
    a_disk,
    a_store,
    append,
    append_control,
    files_of,
    offsets_in,
)

from broker_core.model.exceptions import CorruptBatchError, OffsetOutOfRangeError, UnknownPartitionError
from broker_core.model.identifiers import IsolationLevel
from broker_core.record.batch_reader import iter_headers
from broker_core.storage.segment_names import segment_path

COMMITTED = IsolationLevel.READ_COMMITTED


def aborted_in(store, from_offset, **how):
    fetched = store.read(from_offset, isolation=COMMITTED, **({"max_bytes": 1 << 20} | how))
    return [(t.producer_id, t.first_offset) for t in fetched.aborted_transactions]


def test_an_open_transaction_bounds_the_last_stable_offset():
    store = a_store()
    append(store)
    append(store, a_transactional_batch(2, producer_id=7))
    append(store)
    bounds = store.bounds()
    assert (bounds.last_stable_offset, bounds.high_watermark, bounds.log_end_offset) == (3, 8, 8)
    assert store.read(0, max_bytes=1 << 20, isolation=COMMITTED).next_offset == 3
    assert store.read(3, max_bytes=1 << 20, isolation=COMMITTED).buffer.nbytes == 0
    assert store.read(5, max_bytes=1 << 20, isolation=COMMITTED).next_offset == 5
    append_control(store, a_commit_marker(producer_id=7))
    assert store.bounds().last_stable_offset == 9


@pytest.mark.parametrize("configs", [{}, SMALL_SEGMENTS], ids=["one segment", "many"])
@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
def test_a_read_returns_the_aborted_transactions_of_its_range(configs, max_bytes):
    store = a_store(**configs)
    append(store, a_transactional_batch(2, producer_id=7))
    append(store, a_transactional_batch(2, producer_id=8))
    for _ in range(6):
        append(store)
    append_control(store, an_abort_marker(producer_id=7))
    append_control(store, a_commit_marker(producer_id=8))
    append(store, a_transactional_batch(1, producer_id=7, base_sequence=2))
    append_control(store, a_commit_marker(producer_id=7))
    assert aborted_in(store, 0, max_bytes=max_bytes) == [(7, 0)]
    assert aborted_in(store, 2, max_bytes=1) == []
    assert aborted_in(store, 24, max_bytes=max_bytes) == []
    plain = store.read(0, max_bytes=max_bytes)
    assert plain.aborted_transactions == ()


@pytest.mark.parametrize("damage", [None, b"", b"\0" * 34, b"\xff" * 34])
def test_a_lost_or_wrong_transaction_index_changes_no_result(damage):
    fs = a_disk()
    store = a_store(fs, **SMALL_SEGMENTS)
    append(store, a_transactional_batch(2, producer_id=7))
    append_control(store, an_abort_marker(producer_id=7))
    for _ in range(12):
        append(store)
    (path,) = files_of(fs, "txnindex")
    if damage is None:
        fs.remove(path)
    else:
        fs.overwrite(path, damage)
    assert aborted_in(a_store(fs, writable=False), 0) == [(7, 0)]


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["gone", "empty", "short", "shifted", "zeros", "noise", "another segment's"])
def test_a_wrong_index_never_gives_a_wrong_result(kind, damage):
    fs = a_disk()
    store = a_store(fs, **SMALL_SEGMENTS)
    for _ in range(20):
        append(store, a_batch(2))
    expected = {t: store.find_offset_by_timestamp(t) for t in (0, 1_700_000_000_001, 1_700_000_000_002)}
    contents = [fs.content(path) for path in files_of(fs, kind)]
    for slot, path in enumerate(files_of(fs, kind)):
        content = contents[slot]
        if damage == "gone":
            fs.remove(path)
        else:
            fs.overwrite(path, {
                "empty": b"", "short": content[: len(content) // 2], "shifted": content[4:] + content[:4],
                "zeros": bytes(len(content)), "noise": bytes(range(1, 256))[: len(content)],
                "another segment's": contents[slot - 1],
            }[damage])  # fmt: skip
    before = fs.snapshot()
    reader = a_store(fs, writable=False)
    for offset in range(40):
        fetched = reader.read(offset, max_bytes=1)
        assert fetched.next_offset == offset // 2 * 2 + 2
    assert {t: reader.find_offset_by_timestamp(t) for t in expected} == expected
    assert fs.snapshot() == before
    store = a_store(fs, **SMALL_SEGMENTS)
    append(store)
    assert offsets_in(store) == list(range(43))


def test_damage_inside_the_published_range_is_reported_and_not_served():
    fs = a_disk()
    store = a_store(fs)
    for _ in range(3):
        append(store)
    path, size = f"{DIRECTORY}/00000000000000000000.log", len(a_batch(3))
    content = bytearray(fs.content(path))
    content[size + 80] ^= 1
    fs.overwrite(path, bytes(content))
    reader = a_store(fs, writable=False)
    assert reader.read(0, max_bytes=1 << 20).next_offset == 3
    with pytest.raises(CorruptBatchError) as caught:
        reader.read(3, max_bytes=1 << 20)
    assert caught.value.fields["file"] == path
    assert (caught.value.fields["position"], caught.value.fields["offset"]) == (size, 3)
    assert reader.read(6, max_bytes=1 << 20).next_offset == 9


@pytest.mark.parametrize("settings", [{}, {"index.interval.bytes": "0"}, SMALL_SEGMENTS], ids=str)
@pytest.mark.parametrize("damaged", [0, 2, 5])
def test_a_timestamp_lookup_detects_damage_in_any_byte_of_a_batch(settings, damaged):
    """Times, offsets and counts stand in the batch: a lookup that took one unchecked would find a wrong record."""
    fs = a_disk()
    store = a_store(fs, **settings)
    size = len(a_batch(3))
    for number in range(6):
        append(store, a_batch([a_record(n, timestamp_ms=SOME_TIME_MS + 10 * number + n) for n in range(3)]))
    asked_ms = SOME_TIME_MS + 10 * damaged + 1
    assert store.find_offset_by_timestamp(asked_ms).offset == 3 * damaged + 1
    last = store.find_max_timestamp()
    logs = files_of(fs, "log")
    base_offsets = [int(path[-24:-4]) for path in logs]
    path, base_offset = max(each for each in zip(logs, base_offsets, strict=True) if each[1] <= 3 * damaged)
    begin, whole = (3 * damaged - base_offset) // 3 * size, fs.content(path)
    for at in set(range(size)) - set(range(12, 16)):  # the leader epoch has no checksum
        fs.overwrite(path, whole[: begin + at] + bytes([whole[begin + at] ^ 0x81]) + whole[begin + at + 1 :])
        reader = a_store(fs, writable=False)
        with pytest.raises(CorruptBatchError):
            pytest.fail(f"damage at {at} was believed: {reader.find_offset_by_timestamp(asked_ms)}")
        try:
            assert reader.find_max_timestamp() == last
            assert damaged != 5, f"damage at {at} was believed"
        except CorruptBatchError as error:
            assert error.fields["file"] == path


def test_a_missing_batch_is_not_taken_for_a_gap():
    fs = a_disk()
    store = a_store(fs, **SMALL_SEGMENTS)
    for _ in range(9):
        append(store)
    path = files_of(fs, "log")[0]
    fs.overwrite(path, fs.content(path)[: -len(a_batch(3))])
    with pytest.raises(CorruptBatchError, match="where the segment ends"):
        offsets_in(a_store(fs, writable=False))


def test_a_reader_continues_while_segments_are_deleted():
    fs = a_disk()
    store, reader = a_store(fs, **SMALL_SEGMENTS), a_store(fs, writable=False)
    for _ in range(20):
        append(store)
    assert reader.read(30, max_bytes=1).next_offset == 33
    store.refresh()
    store.delete_records(31)
    assert reader.read(33, max_bytes=1).next_offset == 36
    assert reader.bounds().log_start_offset == 31
    with pytest.raises(OffsetOutOfRangeError):
        reader.read(30, max_bytes=1)


def test_reading_a_deleted_partition_raises_unknown_partition():
    fs = a_disk()
    store = a_store(fs)
    append(store, a_log(a_batch(), a_batch()))
    reader = a_store(fs, writable=False)
    fs.remove_tree(DIRECTORY)
    with pytest.raises(UnknownPartitionError):
        reader.read(0, max_bytes=1)


def test_sequential_reading_needs_few_file_reads():
    fs = a_disk()
    store = a_store(fs)
    for _ in range(50):
        append(store)
    reader = a_store(fs, writable=False)
    reader.read(0, max_bytes=1)
    before = fs.read_count
    for offset in range(3, 150, 3):
        reader.read(offset, max_bytes=len(a_batch(3)))
    assert fs.read_count - before == 2 * 49


def test_a_second_reader_of_the_same_offset_needs_no_lookup():
    fs = a_disk()
    store = a_store(fs)
    for _ in range(50):
        append(store)
    reader = a_store(fs, writable=False)
    first = reader.read(120, max_bytes=1)
    before = fs.read_count
    assert reader.read(120, max_bytes=len(a_batch(3))) == first
    assert fs.read_count - before == 2
    # In the middle of a batch nothing begins: that is looked for each time.
    assert reader.read(121, max_bytes=1) == reader.read(121, max_bytes=1) == first


def test_unchanged_bounds_are_not_rebuilt():
    fs = a_disk()
    store = a_store(fs)
    append(store)
    reader = a_store(fs, writable=False)
    known = reader.read(0, max_bytes=1).bounds
    assert reader.read(0, max_bytes=1).bounds is known
    append(store)
    assert reader.read(0, max_bytes=1).bounds.log_end_offset == 6


def test_an_append_in_progress_is_never_seen():
    fs = a_disk()
    store, reader = a_store(fs), a_store(fs, writable=False)
    append(store)
    path = f"{DIRECTORY}/00000000000000000000.log"
    fs.overwrite(path, fs.content(path) + a_batch(3, base_offset=3)[:-5])
    assert offsets_in(reader) == [0, 1, 2]
    fs.overwrite(path, fs.content(path) + b"xx")
    assert offsets_in(reader) == [0, 1, 2]


def test_the_greatest_timestamp_is_not_that_of_a_deleted_record():
    store = a_store(**SMALL_SEGMENTS)
    for time in (9, 1, 2, 3, 4, 5, 6, 7, 3, 2, 1):
        append(store, a_batch([a_record(0, timestamp_ms=SOME_TIME_MS + time, value=b"x" * 100)]))
    store.refresh()
    store.delete_records(1)
    found = store.find_max_timestamp()
    assert (found.offset, found.timestamp_ms) == (7, SOME_TIME_MS + 7)


def test_cached_read_positions_are_dropped_with_their_file():
    # While a compaction is put in place the bounds are still the old ones. A reader remembered that offset 6 is at the
    # third batch, opened the compacted file, and continued with that file's third batch: 6 to 8 were skipped.
    fs = a_disk()
    store = a_store(fs, **SMALL_SEGMENTS)
    while len(store.segments()) < 4:
        append(store, a_batch(3))
    store.close()
    fs.remove(f"{DIRECTORY}/partition.bounds")
    reader = a_store(fs, writable=False)
    others = [segment.base_offset for segment in reader.segments()[1:]]
    for offset in (0, 3, *others):
        reader.read(offset, max_bytes=1)
    path = segment_path(DIRECTORY, 0, "log")
    batches = [fs.content(path)[at : at + h.size_bytes] for at, h in iter_headers(fs.content(path))]
    assert len(batches) > 3
    fs.overwrite(path + ".swap", b"".join([batches[0], *batches[2:]]))
    fs.overwrite(segment_path(DIRECTORY, 0, "index"), b"")
    fs.rename(path + ".swap", path)
    fetched = reader.read(6, max_bytes=1)
    assert next(header.base_offset for _, header in iter_headers(fetched.buffer)) == 6


def test_a_folder_without_bounds_is_scanned_once_and_not_at_every_read():
    # Derived bounds were a new generation, whose files were looked at again, for which bounds were derived again: every
    # read of a real Kafka's directory read its whole active segment.
    fs = a_disk()
    store = a_store(fs)
    for _ in range(5):
        append(store)
    store.close()
    fs.remove(f"{DIRECTORY}/partition.bounds")
    reader = a_store(fs, writable=False)
    reader.read(0, max_bytes=1)
    generation = reader._reader._generation
    for offset in (3, 6, 9):
        reader.read(offset, max_bytes=1)
    assert reader._reader._generation == generation
