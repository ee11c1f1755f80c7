import pytest
from support.builders.append_records import append_records, append_values
from support.objects.in_memory_objects import InMemoryObjects
from support.objects.object_builders import MemoryLog

from broker_core.cluster import GroupOffset
from broker_core.model.exceptions import CorruptObjectError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.retention_pin import pin_metadata
from broker_core.record.batch_reader import Record, iter_headers, records_of

T0 = TopicPartition("t", 0)
HOUR_MS = 3_600_000


def append(log, cluster, *values, topic="t"):
    append_values(cluster, topic, *values, timestamps_ms=[log.clock.milliseconds] * len(values))


def records(cluster, partition=T0):
    found, position = [], cluster.bounds(partition).log_start_offset
    while True:
        fetched = cluster.fetch(partition, position, max_bytes=10_000)
        data = bytes(fetched.buffer)
        for place, _ in iter_headers(data):
            found += [(one.offset, one.key, one.value) for one in records_of(data, place)]
        if fetched.next_offset == position:
            return found
        position = fetched.next_offset


def data_objects(log):
    return [path for path in log.store.objects if path.startswith("data/")]


def test_merging_keeps_offsets_and_leaves_one_range(log, cluster):
    for number in range(10):
        append(log, cluster, f"a{number}", f"b{number}")
    before = records(cluster)
    report = cluster.maintain()
    assert (report.merged_range_count, report.errors) == (10, [])
    assert len(cluster.describe_segments(T0)) == 1
    assert records(cluster) == records(log.open()) == before
    append(log, cluster, "c")
    assert records(log.open())[-1][0] == 20


def test_merged_ranges_are_split_for_cheap_seeks(log, cluster, monkeypatch):
    for module in ("object_cluster.range_rewriter", "object_log.maintenance_plan"):
        monkeypatch.setattr(f"broker_core.{module}.MERGED_RANGE_BYTES", 200)
    for number in range(10):
        append(log, cluster, f"a{number}")
    before = records(cluster)
    assert cluster.maintain().merged_range_count == 10
    segments = cluster.describe_segments(T0)
    assert 1 < len(segments) < 10 and len({one.path.partition("@")[0] for one in segments}) == 1
    assert records(log.open()) == before


def test_merged_objects_are_kept_for_the_grace_time(log, cluster):
    for number in range(8):
        append(log, cluster, f"a{number}")
    cluster.maintain(grace_ms=HOUR_MS)
    assert len(data_objects(log)) == 9
    log.clock.milliseconds += HOUR_MS + 1
    append(log, cluster, "x")
    report = cluster.maintain(grace_ms=HOUR_MS)
    assert (report.removed_object_count, len(data_objects(log))) == (8, 2)
    assert len(records(log.open())) == 9


def test_an_uncommitted_upload_is_removed_after_the_grace_time(log, cluster):
    upload = cluster.stage()
    upload.append(T0, bytearray(a_plain_batch()))
    upload.finish()
    assert cluster.maintain(grace_ms=HOUR_MS).removed_object_count == 0
    log.clock.milliseconds += HOUR_MS + 1
    append(log, cluster, "x")
    assert cluster.maintain(grace_ms=HOUR_MS).removed_object_count == 1


def a_plain_batch():
    from support.builders.builders import a_batch

    return a_batch(1)


def test_a_clock_ahead_removes_nothing_early(log, cluster):
    upload = cluster.stage()
    upload.append(T0, a_plain_batch())
    staged = upload.finish()
    append(log, cluster, "x")
    ahead = MemoryLog()
    ahead.store, ahead.clock.milliseconds = log.store, log.clock.milliseconds + 10 * HOUR_MS
    assert ahead.open().maintain(grace_ms=HOUR_MS).removed_object_count == 0
    assert cluster.commit_staged([staged]).is_new


def test_retention_advances_the_log_start_up_to_a_pin(log, cluster):
    cluster.alter_topic_configs("t", {"retention.ms": str(HOUR_MS)})
    for number in range(4):
        append(log, cluster, f"a{number}")
    until_ms = log.clock.milliseconds + 5 * HOUR_MS
    log.open().commit_offsets("g", {T0: GroupOffset(offset=2, metadata=pin_metadata(until_ms))})
    log.clock.milliseconds += 2 * HOUR_MS
    assert cluster.maintain().removed_offset_count == 2
    assert cluster.bounds(T0).log_start_offset == 2
    log.clock.milliseconds = until_ms + 2 * HOUR_MS
    assert cluster.maintain().removed_offset_count == 2
    assert cluster.bounds(T0).log_start_offset == 4


def test_compaction_keeps_the_newest_of_each_key_at_its_offset(log, cluster):
    cluster.create_topic("k", configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    partition = TopicPartition("k", 0)
    for number in range(9):
        now_ms = log.clock.milliseconds
        append_records(cluster, "k", Record(key=b"%d" % (number % 3), value=b"v%d" % number, timestamp_ms=now_ms))
    report = cluster.maintain()
    assert (report.compacted_range_count, report.errors) == (9, [])
    expected = [(6, b"0", b"v6"), (7, b"1", b"v7"), (8, b"2", b"v8")]
    assert records(cluster, partition) == records(log.open(), partition) == expected
    assert cluster.bounds(partition).log_end_offset == 9
    assert cluster.maintain().compacted_range_count == 0
    fetched = log.open().fetch(partition, 0, max_bytes=1)
    assert fetched.next_offset > 0


def test_a_checkpoint_is_written_and_old_ones_are_removed(log, cluster):
    for number in range(7):
        cluster.create_topic(f"u{number}")
        assert cluster.maintain().checkpoint_number == number + 2
    numbered = [path for path in log.store.objects if path.startswith("checkpoints/0")]
    assert len(numbered) == 5
    assert cluster.maintain().checkpoint_number is None


def test_nothing_is_done_where_a_commit_was_removed(log, cluster):
    for _ in range(3):
        append(log, cluster, "v")
    before = sorted(log.store.objects)
    del log.store.objects["commits/00000000000000000003"]
    fresh = log.open()
    with pytest.raises(CorruptObjectError, match=r"commits/0+3 is missing, but commits/0+4 exists"):
        fresh.maintain()
    assert sorted(log.store.objects) == [path for path in before if path != "commits/00000000000000000003"]


def test_only_requested_topics_are_merged(log, cluster):
    cluster.create_topic("u")
    for topic in ("t", "u"):
        for number in range(8):
            append(log, cluster, f"a{number}", topic=topic)
    assert cluster.maintain(["u"]).merged_range_count == 8
    assert len(cluster.describe_segments(T0)) == 8
    with pytest.raises(UnknownTopicError):
        cluster.maintain(["x"])


def test_damage_is_reported_instead_of_merged_and_stops_nothing_else(log, cluster):
    cluster.create_topic("u")
    for topic in ("t", "u"):
        for number in range(8):
            append(log, cluster, f"a{number}", topic=topic)
    path = cluster.describe_segments(T0)[3].path.removeprefix(f"{log.store.url}/").partition("@")[0]
    damaged = bytearray(log.store.objects[path])
    damaged[-1] ^= 1
    log.store.objects[path] = bytes(damaged)
    report = cluster.maintain()
    (error,) = report.errors
    assert "t-0: CorruptBatchError" in error and path in error
    assert report.merged_range_count == 8
    assert len(cluster.describe_segments(T0)) == 8


def test_a_maintenance_turn_after_a_commit_does_the_same(log, cluster):
    busy = log.open(maintains=True)
    for number in range(120):
        append(log, busy, f"a{number}")
    busy.close()
    assert len(cluster.describe_segments(T0)) < 60
    assert [path for path in log.store.objects if path.startswith("checkpoints/0")]
    assert [offset for offset, _, _ in records(cluster)] == list(range(120))


def test_one_run_lists_the_checkpoints_once(log, cluster):
    """And once more if it has written one, whose time is the store's clock."""

    class Listed(InMemoryObjects):
        def list_after(self, prefix, after=""):
            prefixes.append(prefix)
            return super().list_after(prefix, after)

    for expected in (2, 1, 1):
        prefixes = []
        store = Listed(now_ms=log.clock.now_ms)
        store.objects, store.modified_ms = log.store.objects, log.store.modified_ms
        maintaining = log.open(store)
        maintaining.bounds(T0)
        prefixes.clear()
        log.clock.milliseconds += HOUR_MS
        maintaining.maintain(grace_ms=1)
        assert prefixes.count("checkpoints/") == expected
