import pytest
from support.builders.builders import SOME_TIME_MS, a_batch, a_record
from support.builders.store_builders import DIRECTORY, SMALL_SEGMENTS, a_disk, a_store, append, files_of, offsets_in
from support.files.faulty_file_system import Killed

from broker_core.model.exceptions import DiskFullError, OffsetOutOfRangeError


def a_long_log(fs, count=12, **configs):
    store = a_store(fs, **(SMALL_SEGMENTS | configs))
    for number in range(count):
        append(store, a_batch([a_record(n, timestamp_ms=SOME_TIME_MS + 1000 * number) for n in range(3)]))
    store.refresh()
    return store


def test_deleted_records_are_hidden_from_every_reader_and_their_segments_removed():
    fs = a_disk()
    store = a_long_log(fs)
    count = len(files_of(fs, "log"))
    assert store.delete_records(20) == 20
    assert offsets_in(a_store(fs, writable=False)) == list(range(20, 36))
    assert len(files_of(fs, "log")) < count
    assert fs.content(f"{DIRECTORY}/log-start-offset-checkpoint") == b"0\n1\nt 0 20\n"
    assert store.delete_records(5) == 20
    with pytest.raises(OffsetOutOfRangeError):
        store.delete_records(37)
    with pytest.raises(OffsetOutOfRangeError):
        store.delete_records(-2)
    assert store.delete_records(-1) == 36
    assert offsets_in(store) == []
    assert append(store).result.base_offset == 36


def test_the_log_start_survives_a_power_failure_and_the_loss_of_the_bounds():
    fs = a_disk()
    a_long_log(fs).delete_records(20)
    fs.power_loss()
    fs.remove(f"{DIRECTORY}/partition.bounds")
    assert offsets_in(a_store(fs, writable=False)) == list(range(20, 36))


def test_retention_by_time_removes_old_segments_and_keeps_the_log_end():
    fs = a_disk()
    store = a_long_log(fs, **{"retention.ms": "5500"})
    assert store.apply_retention(SOME_TIME_MS + 11_000) > 0
    left = offsets_in(store)
    assert 0 < left[0] <= 18
    assert left[-1] == 35
    store.refresh()
    assert store.apply_retention(SOME_TIME_MS + 99_000) > 0
    assert offsets_in(store) == []
    assert store.bounds().log_end_offset == 36
    store = a_store(fs)
    assert append(store).result.base_offset == 36
    assert store.verify() == []


def test_retention_uses_the_batches_and_not_a_wrong_time_index():
    fs = a_disk()
    a_long_log(fs)
    for path in files_of(fs, "timeindex"):
        fs.overwrite(path, b"\0\0\0\0\0\0\0\1\0\0\0\2")
    store = a_store(fs, **SMALL_SEGMENTS, **{"retention.ms": "60000"})
    store.refresh()
    assert store.apply_retention(SOME_TIME_MS + 11_000) == 0


def test_retention_by_size_keeps_at_least_retention_bytes():
    fs = a_disk()
    store = a_long_log(fs, **{"retention.bytes": "700", "retention.ms": "-1"})
    store.apply_retention(SOME_TIME_MS)
    assert sum(s.size_bytes for s in store.segments()) >= 700
    assert offsets_in(store)[0] > 0


def test_truncation_removes_whole_batches_and_the_log_continues_from_there():
    fs = a_disk()
    reader = a_store(fs, writable=False)
    store = a_long_log(fs)
    assert reader.read(30, max_bytes=1).next_offset == 33
    store.truncate_to(16)
    assert offsets_in(reader) == list(range(15))
    assert append(store).result.base_offset == 15
    assert offsets_in(reader) == list(range(18))
    assert store.verify() == []
    store.truncate_to(0)
    assert offsets_in(reader) == []
    assert append(store).result.base_offset == 0


@pytest.mark.parametrize("change", ["delete_records", "retention", "truncate"])
def test_a_crash_during_maintenance_leaves_the_log_before_or_after(change):
    def run(store):
        if change == "delete_records":
            store.delete_records(20)
        elif change == "retention":
            store.apply_retention(SOME_TIME_MS + 99_000)
        else:
            store.truncate_to(16)

    for call in range(1000):
        fs = a_disk()
        store = a_long_log(fs, **{"retention.ms": "5500"})
        fs.kill_at_call(call)
        try:
            run(store)
        except Killed:
            fs.restart()
            store = a_store(fs, **SMALL_SEGMENTS, **{"retention.ms": "5500"})
            store.refresh()
            found = offsets_in(store)
            if change == "truncate":
                assert found == list(range(len(found)))
                assert len(found) >= 15
            else:
                assert found == list(range(store.bounds().log_start_offset, 36))
            assert store.verify() == []
        else:
            assert call > 4
            return


def test_retention_keeps_pinned_offsets():
    fs = a_disk()
    store = a_long_log(fs, **{"retention.ms": "1"})
    assert store.apply_retention(SOME_TIME_MS + 10**9, pinned_offset=20) > 0
    assert 0 < store.bounds().log_start_offset <= 20
    assert store.apply_retention(SOME_TIME_MS + 10**9) > 0
    assert store.bounds().log_start_offset == 36


def test_retention_frees_a_full_disk():
    fs = a_disk()
    reader = a_store(fs, writable=False)
    store = a_long_log(fs, **{"retention.ms": "5500"})
    fs.fill_up_after(0)
    assert store.apply_retention(SOME_TIME_MS + 11_000) > 0
    assert fs.hits["disk_full"]
    left = offsets_in(reader)
    assert left == list(range(left[0], 36)) and left[0] > 0
    assert not files_of(fs, "tmp")
    assert append(store).result.base_offset == 36, "into the space of the segments that are gone"
    fs.remove(f"{DIRECTORY}/partition.bounds")
    assert offsets_in(a_store(fs, writable=False))[0] == left[0], "the names of the files say where the log starts"


def test_retention_frees_a_full_disk_of_a_log_that_has_expired_as_a_whole():
    fs = a_disk()
    store = a_long_log(fs, **{"retention.ms": "5500"})
    fs.fill_up_after(0)
    assert store.apply_retention(SOME_TIME_MS + 99_000) > 2
    assert fs.hits["disk_full"]
    assert offsets_in(store) == []
    assert [path for path in fs.snapshot() if path.endswith(".log")] == [f"{DIRECTORY}/{36:020}.log"]
    assert append(store).result.base_offset == 36


def test_retention_frees_a_full_disk_of_a_log_of_one_segment_and_keeps_its_producers():
    fs = a_disk()
    store = a_store(fs, **{"retention.ms": "5500", "index.interval.bytes": "0"})
    for number in range(12):
        append(store, a_batch(1, producer=(5, 0, number)))
    store.refresh()
    fs.fill_up_after(0)
    assert store.apply_retention(SOME_TIME_MS + 99_000) == 1
    assert fs.hits["disk_full"]
    assert [path for path in fs.snapshot() if path.endswith(".log")] == [f"{DIRECTORY}/{12:020}.log"]
    store = a_store(fs)
    store.refresh()
    assert store.producer_entry(5).last_sequence == 11
    assert append(store).result.base_offset == 12
    assert store.verify() == []


def test_deleting_records_frees_a_full_disk_and_then_checkpoints_the_log_start():
    fs = a_disk()
    store = a_long_log(fs)
    fs.fill_up_after(0)
    assert store.delete_records(20) == 20
    assert fs.hits["disk_full"]
    assert fs.content(f"{DIRECTORY}/log-start-offset-checkpoint") == b"0\n1\nt 0 20\n"
    assert not files_of(fs, "tmp")


def test_deleting_records_that_frees_nothing_changes_nothing_on_a_full_disk():
    fs = a_disk()
    store = a_long_log(fs)
    fs.fill_up_after(0)
    before = fs.snapshot()
    with pytest.raises(DiskFullError):
        store.delete_records(1)
    assert fs.snapshot() == before
    fs.free_space()
    store.refresh()
    assert offsets_in(store) == list(range(36))


@pytest.mark.parametrize("is_power_lost", [False, True])
@pytest.mark.parametrize("change", ["delete_records", "retention", "expired_log", "expired_segment"])
def test_a_crash_while_a_full_disk_is_freed_loses_nothing_that_should_stay(change, is_power_lost):
    until_ms = SOME_TIME_MS + (99_000 if change.startswith("expired") else 11_000)
    kept_from = {"delete_records": 20, "retention": 18, "expired_log": 36, "expired_segment": 36}[change]
    configs = {"retention.ms": "5500", **({"internal.segment.bytes": "9999"} if change == "expired_segment" else {})}
    for call in range(1000):
        fs = a_disk()
        reader = a_store(fs, writable=False)
        store = a_long_log(fs, **configs)
        fs.fill_up_after(0)
        fs.kill_at_call(call)
        try:
            store.delete_records(20) if change == "delete_records" else store.apply_retention(until_ms)
        except Killed:
            fs.power_loss() if is_power_lost else fs.restart()
            if change == "expired_segment":
                fs.free_space()  # for the producers at the start of a segment that was begun
            store = a_store(fs, **(SMALL_SEGMENTS | configs))
            store.refresh()
            start = store.bounds().log_start_offset
            assert start <= kept_from
            assert offsets_in(store) == list(range(start, 36))
            store.delete_records(20) if change == "delete_records" else store.apply_retention(until_ms)
            assert offsets_in(store) == offsets_in(a_store(fs, writable=False))
            assert store.verify() == []
        else:
            assert call > 8
            assert fs.hits["disk_full"]
            assert offsets_in(reader) == list(range(store.bounds().log_start_offset, 36))
            return
