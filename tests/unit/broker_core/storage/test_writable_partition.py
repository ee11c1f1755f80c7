import copy
from uuid import UUID

import pytest
from support.builders.builders import SOME_TIME_MS, a_batch, a_log, a_record
from support.builders.store_builders import (
    DIRECTORY,
    PARTITION,
    SMALL_SEGMENTS,
    TOPIC_ID,
    a_disk,
    a_store,
    append,
    files_of,
    offsets_in,
    records_in,
)
from support.files.faulty_file_system import FaultyFileSystem, Killed

from broker_core.model.exceptions import (
    DirectoryFormatError,
    DiskFullError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    UnknownPartitionError,
)
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_header import read_header
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.writable_partition import WritablePartition


def test_appended_batches_are_read_back_and_their_bytes_match_kafka():
    fs = a_disk()
    store = a_store(fs)
    outcome = append(store, a_log(a_batch(3), a_batch(2)))
    assert (outcome.result.base_offset, outcome.result.last_offset, outcome.rolled) == (0, 4, False)
    assert append(store).result.base_offset == 5
    assert offsets_in(store) == list(range(8))
    assert [r.value for r in records_in(store, 5)] == [b"value-0", b"value-1", b"value-2"]
    header = read_header(fs.content(f"{DIRECTORY}/00000000000000000000.log"), len(a_batch(3)))
    assert (header.base_offset, header.partition_leader_epoch) == (3, 0)


def test_a_new_partition_is_empty_and_creating_it_again_changes_nothing():
    fs = a_disk()
    append(a_store(fs))
    before = fs.snapshot()
    WritablePartition.create(fs, DIRECTORY, PARTITION, TOPIC_ID)
    assert fs.snapshot() == before
    assert a_store(a_disk()).bounds().log_end_offset == 0


def test_a_creation_that_was_interrupted_anywhere_is_completed_by_the_next_attempt():
    for call in range(1000):
        fs = FaultyFileSystem()
        fs.make_directory("/log")
        fs.kill_at_call(call, torn_bytes=3)
        try:
            WritablePartition.create(fs, DIRECTORY, PARTITION, TOPIC_ID)
        except Killed:
            fs.restart()
            WritablePartition.create(fs, DIRECTORY, PARTITION, TOPIC_ID)
            store = a_store(fs)
            append(store)
            assert offsets_in(store) == [0, 1, 2]
        else:
            assert call > 10
            return


def test_the_first_append_to_a_partition_syncs_its_log_once():
    fs = FaultyFileSystem()
    fs.make_directory("/log")
    WritablePartition.create(fs, DIRECTORY, PARTITION, TOPIC_ID)
    fs.calls.clear()
    append(a_store(fs))
    synced = [path.rpartition("/")[2] for kind, path in fs.calls if kind == "sync"]
    assert synced.count("00000000000000000000.log") == 1


def test_a_partition_is_created_with_few_syncs_and_gets_its_id_last():
    fs = FaultyFileSystem()
    fs.make_directory("/log")
    WritablePartition.create(fs, DIRECTORY, PARTITION, TOPIC_ID)
    kinds = [kind for kind, _ in fs.calls]
    assert (kinds.count("sync"), kinds.count("sync_directory")) == (3, 3)
    assert fs.calls[-2:] == [("rename", f"{DIRECTORY}/partition.metadata"), ("sync_directory", DIRECTORY)]
    made = [number for number, (kind, _) in enumerate(fs.calls) if kind in ("create", "make_directory")]
    names_synced = [fs.calls.index(("sync_directory", path)) for path in (DIRECTORY, "/log")]
    assert [fs.calls[number][1] for number in made if number > min(names_synced)] == [
        f"{DIRECTORY}/partition.metadata.tmp"
    ]


def test_a_created_partition_survives_a_power_failure():
    fs = a_disk()
    fs.power_loss()
    store = a_store(fs)
    append(store)
    assert offsets_in(store) == [0, 1, 2]


def test_a_folder_of_another_topic_id_is_refused():
    fs = a_disk()
    with pytest.raises(DirectoryFormatError, match=r"partition\.metadata has topic id"):
        ReadablePartition.open(fs, DIRECTORY, PARTITION, config=TopicConfig(), topic_id=UUID(int=9))
    with pytest.raises(UnknownPartitionError):
        ReadablePartition.open(fs, "/log/x-0", TopicPartition("x", 0), config=TopicConfig(), topic_id=None)


def test_reads_begin_at_the_batch_with_the_offset_and_keep_their_limits():
    store = a_store()
    for _ in range(4):
        append(store)
    size = len(a_batch(3))
    assert store.read(4, max_bytes=1).next_offset == 6
    assert len(store.read(4, max_bytes=1).buffer) == size
    assert len(store.read(0, max_bytes=2 * size + 10).buffer) == 2 * size
    assert store.read(0, max_bytes=1 << 20, until_offset=4).next_offset == 6
    assert store.read(3, max_bytes=1 << 20, until_offset=3).buffer.nbytes == 0
    assert (store.read(12, max_bytes=1).buffer.nbytes, store.read(12, max_bytes=1).next_offset) == (0, 12)
    for offset in (-1, 13):
        with pytest.raises(OffsetOutOfRangeError):
            store.read(offset, max_bytes=1)


def test_a_batch_larger_than_max_bytes_is_read_whole():
    store = a_store()
    large = a_batch([a_record(0, value=b"x" * 100_000)])
    append(store, large)
    append(store)
    assert len(store.read(0, max_bytes=10).buffer) == len(large)
    assert store.read(0, max_bytes=10).next_offset == 1


def test_a_log_of_several_segments_is_read_to_its_end():
    fs = a_disk()
    store = a_store(fs, **SMALL_SEGMENTS)
    rolls = [append(store).rolled for _ in range(20)]
    assert 1 < sum(rolls) < 20
    for max_bytes in (1, 300, 1 << 20):
        assert offsets_in(a_store(fs, writable=False), max_bytes=max_bytes) == list(range(60))
    segments = store.segments()
    assert [s.is_active for s in segments] == [False] * (len(segments) - 1) + [True]
    assert [s.next_offset for s in segments[:-1]] == [s.base_offset for s in segments[1:]]
    assert files_of(fs, "log") == [s.path for s in segments]
    assert store.verify() == []


def test_an_append_across_segments_is_visible_as_one():
    store = a_store(**SMALL_SEGMENTS)
    outcome = append(store, a_log(*(a_batch(3) for _ in range(12))))
    assert (outcome.result.base_offset, outcome.result.last_offset, outcome.rolled) == (0, 35, True)
    assert offsets_in(store) == list(range(36))
    assert store.verify() == []


def test_several_stores_see_each_others_appends():
    fs = a_disk()
    stores = [a_store(fs, **SMALL_SEGMENTS) for _ in range(3)]
    for number in range(30):
        assert append(stores[number % 3]).result.base_offset == 3 * number
    assert [offsets_in(store) for store in stores] == [list(range(90))] * 3


def test_alternating_writers_append_index_entries_in_order():
    fs = a_disk()
    writers = [a_store(fs), a_store(fs)]
    for turn in range(8):
        append(writers[turn % 2], a_batch([a_record(2 * turn + each, value=bytes(3000)) for each in range(2)]))
    # Behind the first one each batch is further than index.interval.bytes from the last entry: 8 bytes for it.
    assert len(fs.content(f"{DIRECTORY}/00000000000000000000.index")) == 7 * 8
    assert a_store(fs).verify() == []


def test_a_refused_append_changes_nothing_and_the_next_one_succeeds():
    fs = a_disk()
    store = a_store(fs, **{"max.message.bytes": "300"})
    append(store)
    before = fs.snapshot()
    with pytest.raises(RecordTooLargeError):
        append(store, a_log(a_batch(1), a_batch(50)))
    assert fs.snapshot() == before
    assert append(store).result.base_offset == 3


@pytest.mark.parametrize("step", [29, pytest.param(7, marks=pytest.mark.long)])
@pytest.mark.parametrize("configs", [{}, SMALL_SEGMENTS], ids=["one segment", "rolling"])
def test_a_full_disk_leaves_nothing_visible_and_writing_resumes_later(configs, step):
    batches = a_log(*(a_batch(3) for _ in range(9)))
    hits = 0
    for room_bytes in range(0, 3 * len(batches), step):
        fs = a_disk()
        store, other = a_store(fs, **configs), a_store(fs, writable=False)
        append(store)
        before = fs.snapshot()
        fs.fill_up_after(room_bytes)
        try:
            append(store, batches)
        except DiskFullError:
            hits += fs.hits["disk_full"]
            logs = {path: content for path, content in fs.snapshot().items() if path.endswith(".log")}
            assert logs == {path: content for path, content in before.items() if path.endswith(".log")}
            assert offsets_in(other) == [0, 1, 2]
            fs.free_space()
            assert append(store, batches).result.base_offset == 3
        else:
            assert fs.hits["disk_full"] == 0
        assert offsets_in(other) == list(range(30))
        assert store.verify() == []
    assert hits > 10


def test_a_failed_sync_raises_and_its_bytes_are_removed():
    fs = a_disk()
    store = a_store(fs)
    append(store)
    fs.fail_sync()
    with pytest.raises(Exception, match="appending"):
        append(store)
    assert fs.hits["sync_failed"] == 1
    fs.power_loss()
    store = a_store(fs)
    store.refresh()
    assert offsets_in(store) == [0, 1, 2]


def test_every_acknowledged_append_survives_a_power_failure():
    fs = a_disk()
    store = a_store(fs, **SMALL_SEGMENTS)
    for number in range(25):
        append(store)
        fs.power_loss()
        store = a_store(fs, **SMALL_SEGMENTS)
        store.refresh()
        assert offsets_in(store) == list(range(3 * number + 3))
    assert fs.hits["power_loss"] == 25


def test_with_flush_policy_os_nothing_is_synced_and_a_lost_tail_is_truncated():
    fs = a_disk()
    store = a_store(fs, **{"flush.policy": "os"})
    calls = len(fs.calls)
    append(store)
    append(store)
    assert "sync" not in {kind for kind, _ in fs.calls[calls:]}
    assert offsets_in(a_store(fs, writable=False)) == list(range(6))
    fs.restart()
    store = a_store(fs, **{"flush.policy": "os"})
    store.refresh()
    assert offsets_in(store) == list(range(6))
    fs.power_loss()
    store = a_store(fs, **{"flush.policy": "os"})
    store.refresh()
    assert fs.hits["lost_bytes"] >= 1
    assert offsets_in(store) == []
    assert append(store).result.base_offset == 0


def test_flush_messages_syncs_after_that_many_records():
    fs = a_disk()
    store = a_store(fs, **{"flush.policy": "os", "flush.messages": "4"})
    for _ in range(4):
        append(store)
    fs.power_loss()
    store = a_store(fs)
    store.refresh()
    assert len(offsets_in(store)) >= 6


def test_timestamp_lookups_are_exact():
    store = a_store(**SMALL_SEGMENTS)
    for number in range(10):
        append(store, a_batch([a_record(n, timestamp_ms=SOME_TIME_MS + 10 * number + n) for n in range(3)]))
    times = [(r.offset, r.timestamp_ms) for r in records_in(store)]
    for asked in range(SOME_TIME_MS - 1, SOME_TIME_MS + 95):
        expected = next(((offset, time) for offset, time in times if time >= asked), None)
        found = store.find_offset_by_timestamp(asked)
        assert (found and (found.offset, found.timestamp_ms)) == expected
    assert store.find_max_timestamp().offset == 29
    assert store.find_offset_by_timestamp(SOME_TIME_MS + 50, until_offset=15) is None
    assert a_store().find_max_timestamp() is None


def test_retries_are_recognized_after_a_restart():
    fs = a_disk()
    for sequence in range(0, 15, 3):
        append(a_store(fs), a_batch(3, producer=(5, 0, sequence)))
    for sequence in range(0, 15, 3):
        result = append(a_store(fs), a_batch(3, producer=(5, 0, sequence))).result
        assert (result.base_offset, result.is_duplicate) == (sequence, True)
    assert offsets_in(a_store(fs)) == list(range(15))


@pytest.mark.parametrize("later", [0, 1, 3, 7])
def test_retries_are_recognized_after_another_process_rolled_a_segment(later):
    # Only the last batch was: a retry of the four before was refused as out of order.
    fs = a_disk()
    mine, other = a_store(fs), a_store(fs)
    for sequence in range(0, 18, 3):
        mine.refresh()
        append(mine, a_batch(3, producer=(5, 0, sequence)))
    other.refresh()
    for number in range(later):
        append(other, a_batch(1, producer=(6, 0, number)))
        assert other.roll(SOME_TIME_MS)
    assert other.roll(SOME_TIME_MS) is (later == 0)
    for sequence in range(3, 18, 3):
        mine.refresh()
        result = append(mine, a_batch(3, producer=(5, 0, sequence))).result
        assert (result.base_offset, result.is_duplicate) == (sequence, True)
    assert [
        len(mine.producer_entries()[5].batches),
        append(mine, a_batch(3, producer=(5, 0, 18))).result.base_offset,
    ] == [
        5,
        18 + later,
    ]


def test_a_partition_that_was_closed_meanwhile_recognizes_retries_after_another_process_rolled():
    fs = a_disk()
    mine = a_store(fs)
    for sequence in range(5):
        append(mine, a_batch(1, producer=(5, 0, sequence)))
    remembered = mine.remembered_producers
    mine.close()
    append(a_store(fs), a_batch(1))
    assert refreshed(fs).roll(SOME_TIME_MS)
    again = a_store(fs)
    again.remember_producers(remembered)
    again.refresh()
    for sequence in range(5):
        result = append(again, a_batch(1, producer=(5, 0, sequence))).result
        assert (result.base_offset, result.is_duplicate) == (sequence, True)


def test_a_clock_that_was_set_back_does_not_delay_the_sync():
    # With flush.ms the sync waited until the clock had come back to where it was.
    fs = a_disk()
    store = a_store(fs, **{"flush.policy": "os", "flush.ms": "1000"})
    append(store, now_ms=SOME_TIME_MS)
    append(store, now_ms=SOME_TIME_MS - 1_800_000)
    fs.power_loss()
    store = a_store(fs)
    store.refresh()
    assert offsets_in(store) == list(range(6))


def test_an_unsynced_batch_is_visible_immediately_and_durable_with_the_next_sync():
    fs = a_disk()
    store, reader = a_store(fs), a_store(fs, writable=False)
    append(store)
    synced = [call for call in fs.calls if call == ("sync", f"{DIRECTORY}/00000000000000000000.log")]
    store.append_control(a_batch(2), now_ms=SOME_TIME_MS, is_synced=False)
    assert [call for call in fs.calls if call == ("sync", f"{DIRECTORY}/00000000000000000000.log")] == synced
    assert offsets_in(reader) == list(range(5))
    lost = copy.deepcopy(fs)
    lost.power_loss()
    assert offsets_in(refreshed(lost)) == list(range(3))
    append(store)
    fs.power_loss()
    assert offsets_in(refreshed(fs)) == list(range(8))


def refreshed(fs):
    store = a_store(fs)
    store.refresh()
    return store


def test_producer_state_can_be_queried():
    store = a_store()
    append(store, a_batch(3, producer=(7, 2, 0)))
    assert store.producer_entry(8) is None
    entry = store.producer_entry(7)
    assert (entry.producer_epoch, entry.last_sequence, entry.transaction_first_offset) == (2, 2, None)
