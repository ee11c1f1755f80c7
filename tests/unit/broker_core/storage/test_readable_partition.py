"""What is asked of a partition by type: a reader has no way to change it, a rebuilder none that anybody would see."""

import inspect

from support.builders.builders import SOME_TIME_MS
from support.builders.store_builders import (
    SMALL_SEGMENTS,
    a_disk,
    a_rebuilder,
    a_store,
    append,
    keyed,
    records_in,
)

from broker_core.storage.partition_rebuilder import PartitionRebuilder
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.writable_partition import WritablePartition

COMPACTED = SMALL_SEGMENTS | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
QUESTIONS = {
    "bounds": lambda store: store.bounds(),
    "has_unpublished": lambda store: store.has_unpublished(),
    "read": lambda store: store.read(0, max_bytes=1 << 20),
    "find_offset_by_timestamp": lambda store: store.find_offset_by_timestamp(SOME_TIME_MS),
    "find_max_timestamp": lambda store: store.find_max_timestamp(),
    "find_offset_within_bytes": lambda store: store.find_offset_within_bytes(0, 10, 100),
    "bytes_between": lambda store: store.bytes_between(0, 10),
    "ranges_with_key": lambda store: store.ranges_with_key(b"k1", 0, 10),
    "leader_epochs": lambda store: store.leader_epochs(),
    "segments": lambda store: store.segments(),
    "dump": lambda store: list(store.dump()),
    "verify": lambda store: store.verify(),
    "plan_key_filters": lambda store: store.plan_key_filters(),
    "close": lambda store: store.close(),
}


def methods_of(kind):
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def a_disk_with_segments():
    fs = a_disk()
    store = a_store(fs, **COMPACTED)
    for number in range(40):
        append(store, keyed(b"k%d" % (number % 3)), now_ms=SOME_TIME_MS + number)
    assert len(store.segments()) > 3
    return fs, store


def test_no_method_of_a_reader_writes_to_the_disk():
    fs, _ = a_disk_with_segments()
    before, reader = fs.snapshot(), a_store(fs, writable=False)
    assert methods_of(ReadablePartition) == set(QUESTIONS)
    for question in QUESTIONS.values():
        question(reader)
    assert fs.snapshot() == before


def test_rebuilt_files_stay_beside_the_log_until_a_writer_swaps_them_in():
    fs, store = a_disk_with_segments()
    before, records = fs.snapshot(), records_in(store)
    rebuilder = a_rebuilder(fs)
    assert methods_of(PartitionRebuilder) - methods_of(ReadablePartition) == {"clean_compaction", "write_key_filter"}
    for segment in rebuilder.plan_key_filters():
        assert rebuilder.write_key_filter(segment)
    store.refresh()
    job = store.plan_compaction(SOME_TIME_MS + 1000)
    cleaned = rebuilder.clean_compaction(job, memory_bytes=1 << 20, digest_key=b"k" * 16)
    aside = {path: content for path, content in fs.snapshot().items() if path not in before}
    assert aside and all(path.endswith((".tmp", ".cleaned")) for path in aside)
    assert {path: content for path, content in fs.snapshot().items() if path in before} == before
    assert records_in(a_store(fs, writable=False)) == records
    assert store.swap_compaction(cleaned).records_removed > 0
    assert len(records_in(a_store(fs, writable=False))) < len(records)


def test_only_a_writer_may_change_the_log():
    changes = {"append", "append_group", "begin_append", "refresh", "load", "flush", "delete_records", "roll"}
    changes |= {"apply_retention", "truncate_to", "swap_compaction", "place_key_filter", "append_control", "create"}
    assert changes <= {name for name in dir(WritablePartition) if not name.startswith("_")}
    assert not changes & set(dir(PartitionRebuilder))
