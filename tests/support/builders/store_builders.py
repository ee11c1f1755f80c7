"""A partition on an in-memory disk, and the few moves that most tests of the stockroom make."""

from __future__ import annotations

from uuid import UUID

from support.builders.builders import SOME_TIME_MS, a_batch, a_record
from support.files.faulty_file_system import FaultyFileSystem

from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_reader import iter_headers, records_of
from broker_core.storage.partition_rebuilder import PartitionRebuilder
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.writable_partition import WritablePartition

DIRECTORY = "/log/t-0"
PARTITION = TopicPartition("t", 0)
TOPIC_ID = UUID(int=7)
SMALL_SEGMENTS = {"internal.segment.bytes": "700", "index.interval.bytes": "0"}


def a_disk(fs: FaultyFileSystem | None = None) -> FaultyFileSystem:
    fs = fs or FaultyFileSystem()
    fs.make_directory("/log")
    fs.sync_directory("")
    WritablePartition.create(fs, DIRECTORY, PARTITION, TOPIC_ID)
    return fs


def a_store(fs=None, *, writable=True, **configs):
    """`a_store(fs, segment_bytes=...)` is not how settings are named: pass them as a dict by **{"a.b": "c"}."""
    kind = WritablePartition if writable else ReadablePartition
    config = TopicConfig.from_strings(configs)
    return kind.open(fs or a_disk(), DIRECTORY, PARTITION, config=config, topic_id=TOPIC_ID)


def a_rebuilder(fs) -> PartitionRebuilder:
    return PartitionRebuilder.open(fs, DIRECTORY, PARTITION, config=TopicConfig(), topic_id=TOPIC_ID)


def append(store, batches=None, *, now_ms=SOME_TIME_MS):
    store.refresh()
    return store.append(a_batch(3) if batches is None else bytearray(batches), now_ms=now_ms)


def append_control(store, marker, *, now_ms=SOME_TIME_MS):
    store.refresh()
    return store.append_control(bytearray(marker), now_ms=now_ms)


def records_in(store, from_offset=None, *, isolation=IsolationLevel.READ_UNCOMMITTED, max_bytes=1 << 20):
    """Every data record that is stored (aborted ones, too), from the log start on."""
    bounds = store.bounds()
    offset = bounds.log_start_offset if from_offset is None else from_offset
    found = []
    while offset < bounds.readable_end(isolation):
        fetched = store.read(offset, max_bytes=max_bytes, isolation=isolation)
        for position, header in iter_headers(fetched.buffer):
            if not header.is_control:
                found += [record for record in records_of(fetched.buffer, position) if record.offset >= offset]
        assert fetched.next_offset > offset
        offset = fetched.next_offset
    return found


def offsets_in(store, **how):
    return [record.offset for record in records_in(store, **how)]


def files_of(fs, kind):
    return sorted(path for path in fs.snapshot() if path.endswith(f".{kind}"))


def make_key_filters(store) -> int:
    """For every closed segment that has none, as maintenance does; how many were made."""
    planned = store.plan_key_filters()
    for segment in planned:
        assert store.write_key_filter(segment)
        store.refresh()
        assert store.place_key_filter(segment)
    return len(planned)


def keyed(*keys, **more):
    """A batch with these keys, None for none; values are all the same."""
    return a_batch([a_record(number, key=key, value=b"v" * 40) for number, key in enumerate(keys)], **more)


def assert_no_key_is_denied(store):
    """Asked for the key of any record, the store names a range with that record in it."""
    offsets: dict[bytes | None, list[int]] = {}
    for record in records_in(store):
        offsets.setdefault(record.key, []).append(record.offset)
    for key, with_key in offsets.items():
        ranges = store.ranges_with_key(key, 0, store.bounds().log_end_offset).ranges
        left = [offset for offset in with_key if not any(first <= offset < until for first, until in ranges)]
        assert not left, f"{key!r} is at {left}, and {ranges} does not hold it"
