import pytest
from support.builders.builders import (
    SOME_TIME_MS,
    a_batch,
    a_commit_marker,
    a_record,
    a_transactional_batch,
    an_abort_marker,
)
from support.builders.store_builders import (
    SMALL_SEGMENTS,
    a_disk,
    a_store,
    append,
    append_control,
    files_of,
    records_in,
)
from support.files.faulty_file_system import Killed

COMPACTED = SMALL_SEGMENTS | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
MEMORY_BYTES = 1 << 16


def a_log_of_few_keys(fs, count=24):
    store = a_store(fs, **COMPACTED)
    for number in range(count):
        append(store, a_batch([a_record(n, key=b"k%d" % n, value=b"v%d" % number) for n in range(3)]))
    store.refresh()
    return store


def latest(store):
    return {record.key: record.value for record in records_in(store)}


def test_compaction_keeps_the_newest_value_of_each_key_at_its_offset():
    fs = a_disk()
    store, reader = a_log_of_few_keys(fs), a_store(fs, writable=False)
    assert len(records_in(reader)) == 72
    report = store.compact(SOME_TIME_MS, MEMORY_BYTES)
    assert report.segments_cleaned >= report.segments_written > 0
    assert report.records_removed == 72 - len(records_in(reader)) > 40
    assert latest(reader) == {b"k0": b"v23", b"k1": b"v23", b"k2": b"v23"}
    assert reader.bounds().log_end_offset == 72
    assert [r.offset for r in records_in(reader)][-1] == 71
    assert store.verify() == []
    assert append(store).result.base_offset == 72
    assert store.compact(SOME_TIME_MS, MEMORY_BYTES).segments_cleaned == 0


def test_between_plan_and_swap_readers_see_the_old_log_and_appends_continue():
    fs = a_disk()
    store, other, reader = a_log_of_few_keys(fs), a_store(fs, **COMPACTED), a_store(fs, writable=False)
    job = store.plan_compaction(SOME_TIME_MS)
    cleaned = store.clean_compaction(job, memory_bytes=MEMORY_BYTES, digest_key=b"k" * 16)
    assert len(records_in(reader)) == 72
    append(other)
    assert len(records_in(reader)) == 75
    store.refresh()
    assert store.swap_compaction(cleaned).records_removed > 40
    assert append(other).result.base_offset == 75
    assert len(records_in(reader)) < 40


def test_a_compaction_result_is_discarded_when_segments_changed_meanwhile():
    fs = a_disk()
    store, other = a_log_of_few_keys(fs), a_store(fs, **COMPACTED)
    cleaned = store.clean_compaction(
        store.plan_compaction(SOME_TIME_MS), memory_bytes=MEMORY_BYTES, digest_key=b"k" * 16
    )
    other.refresh()
    other.delete_records(40)
    store.refresh()
    assert store.swap_compaction(cleaned).segments_cleaned == 0
    assert [r.offset for r in records_in(store)] == list(range(40, 72))
    assert not files_of(fs, "cleaned")


def test_a_small_key_table_takes_several_passes():
    fs = a_disk()
    store = a_store(fs, **COMPACTED)
    for number in range(40):
        append(store, a_batch([a_record(n, key=b"k%d" % (n % 20)) for n in range(3 * number, 3 * number + 3)]))
    store.refresh()
    expected = latest(store)
    assert store.compact(SOME_TIME_MS, 24 * 12).records_removed > 0
    assert latest(store) == expected
    assert store.verify() == []


def test_aborted_records_replace_nothing_even_without_the_transaction_index():
    fs = a_disk()
    store = a_store(fs, **COMPACTED)
    append(store, a_batch([a_record(0, key=b"k", value=b"committed")]))
    append(store, a_transactional_batch([a_record(0, key=b"k", value=b"aborted")], producer_id=7))
    append_control(store, an_abort_marker(producer_id=7))
    append(store, a_transactional_batch([a_record(0, key=b"other")], producer_id=8))
    append_control(store, a_commit_marker(producer_id=8))
    for number in range(9):
        append(store, a_batch([a_record(number)]))
    for path in files_of(fs, "txnindex"):
        fs.remove(path)
    store = a_store(fs, **COMPACTED)
    store.refresh()
    store.compact(SOME_TIME_MS, MEMORY_BYTES)
    assert latest(store)[b"k"] == b"committed"
    assert latest(store)[b"other"] == b"value-0"


@pytest.mark.parametrize("power", [False, True])
def test_a_crash_at_any_step_of_compaction_loses_no_newest_value_and_the_next_writer_cleans_up(power):
    for call in range(1000):
        fs = a_disk()
        store = a_log_of_few_keys(fs, count=14)
        fs.kill_at_call(call, torn_bytes=1)
        try:
            store.compact(SOME_TIME_MS, MEMORY_BYTES)
        except Killed:
            if power:
                fs.power_loss()
            else:
                fs.restart()
            store = a_store(fs, **COMPACTED)
            store.refresh()
            assert latest(store) == {b"k0": b"v13", b"k1": b"v13", b"k2": b"v13"}
            assert not files_of(fs, "swap") + files_of(fs, "deleted")
            assert store.verify() == []
            assert append(store).result.base_offset == 42
            store.compact(SOME_TIME_MS, MEMORY_BYTES)
            assert not files_of(fs, "cleaned")
        else:
            assert call > 20
            return


SEGMENT_EACH = COMPACTED | {
    "cleanup.policy": "compact,delete",
    "internal.segment.bytes": "150",
    "retention.bytes": "400",
}


def size_of(store):
    return sum(segment.size_bytes for segment in store.segments())


def a_log_of_two_producers(fs):
    """A segment each batch: what is remembered of the producers lies in many segments."""
    store = a_store(fs, **SEGMENT_EACH)
    for sequence in range(6):
        append(store, a_batch([a_record(0, key=b"k")], producer=(1, 0, sequence)))
        append(store, a_transactional_batch([a_record(0, key=b"k")], producer_id=2, base_sequence=sequence))
    append_control(store, a_commit_marker(producer_id=2))
    append(store, a_transactional_batch([a_record(0, key=b"open")], producer_id=3))
    append(store, a_batch([a_record(0, key=b"last")]))
    store.refresh()
    return store


@pytest.mark.parametrize(
    "shorten",
    [
        lambda store: store.compact(SOME_TIME_MS, MEMORY_BYTES),
        lambda store: store.delete_records(13),
        lambda store: store.apply_retention(SOME_TIME_MS),
    ],
    ids=["compaction", "DeleteRecords", "retention"],
)
def test_shortening_a_log_keeps_its_producer_state(shorten):
    store = a_log_of_two_producers(a_disk())
    size_bytes, known, is_open = size_of(store), store.producer_entries(), store.open_transactions()
    assert [len(known[producer_id].batches) for producer_id in (1, 2, 3)] == [5, 5, 1]
    assert shorten(store)
    assert size_of(store) < size_bytes
    store.refresh()
    assert store.producer_entries() == known
    assert store.open_transactions() == is_open == {3: 13}
    # A process that opens the folder knows the last batch of each, as after a restart of Kafka.
    fresh = a_store(store._fs, **SEGMENT_EACH)
    fresh.refresh()
    assert {entry.batches[-1] for entry in fresh.producer_entries().values()} == {
        entry.batches[-1] for entry in known.values()
    }


def test_a_producer_snapshot_does_not_cover_what_others_published_meanwhile():
    fs = a_disk()
    store = a_log_of_two_producers(fs)
    remembered = store.remembered_producers
    known = store.producer_entries()
    store.close()
    again = a_store(fs, **SEGMENT_EACH)
    again.remember_producers(remembered)
    again.refresh()
    assert again.producer_entries() == known
    append(a_store(fs, **SEGMENT_EACH), a_batch(producer=(1, 0, 6)))
    late = a_store(fs, **SEGMENT_EACH)
    late.remember_producers(remembered)
    late.refresh()
    assert late.producer_entries()[1].last_sequence == 8
