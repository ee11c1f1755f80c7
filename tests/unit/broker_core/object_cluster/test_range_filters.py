"""Key filters of an object log: who builds them, what a look-up reads, what it skips."""

from collections import Counter

import pytest
from support.builders.append_records import append_records
from support.objects.counted_objects import CountedObjects

from broker_core.cluster import KeyRanges
from broker_core.model.exceptions import ObjectStoreUnavailableError, UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster import range_filters
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record

T0 = TopicPartition("t", 0)


@pytest.fixture
def small_filters(monkeypatch):
    """Ranges of a few hundred bytes have filters, too."""
    monkeypatch.setattr("broker_core.object_cluster.range_rewriter.MIN_FILTERED_RANGE_BYTES", 1)
    monkeypatch.setattr("broker_core.object_cluster.range_rewriter.MERGED_RANGE_BYTES", 2_000)


@pytest.fixture
def merged(log, cluster, small_filters):
    """Forty commits with the keys 0 to 39, merged into a few ranges, and one more behind them."""
    for number in range(40):
        append_records(cluster, "t", Record(key=b"%d" % number, value=b"v" * 200))
    assert cluster.maintain().merged_range_count == 40
    append_records(cluster, "t", Record(key=b"later", value=b"v"))
    return cluster


def ranges_of(cluster):
    return cluster._log.read(lambda image: list(next(image.partitions())[2].ranges))


def test_a_merge_leaves_a_filter_by_which_other_ranges_are_skipped(log, merged):
    placed = ranges_of(merged)
    assert len(placed) > 4 and all(one.data.filter_bytes for one in placed[:-1])
    for cluster in (merged, log.open()):
        for number in range(0, 40, 7):
            holder = next(one for one in placed if one.base_offset <= number < one.end_offset)
            found = cluster.ranges_with_key(T0, b"%d" % number, 0, 40)
            assert found == KeyRanges(
                ranges=((holder.base_offset, holder.end_offset),),
                skipped_bytes=sum(one.data.size_bytes for one in placed[:-1] if one is not holder),
            )
        # What has no filter may hold any key, and what is not there yet, too.
        assert cluster.ranges_with_key(T0, b"none", 0, 50).ranges == ((40, 50),)
        assert cluster.ranges_with_key(T0, None, 3, 40).ranges == ()


def test_a_compaction_leaves_filters_too(log, small_filters):
    with log.open() as cluster:
        cluster.create_topic("k", configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
        for number in range(12):
            append_records(cluster, "k", Record(key=b"%d" % (number % 4), value=b"%d" % number))
        assert cluster.maintain().compacted_range_count == 12
        partition = TopicPartition("k", 0)
        # There is nothing to skip below offset 8, where compaction has left no records.
        assert cluster.ranges_with_key(partition, b"none", 0, 12).ranges == ((0, 8),)
        assert cluster.ranges_with_key(partition, b"3", 8, 12).ranges == ((8, 12),)


def test_a_large_upload_has_filters_and_a_small_one_is_left_to_the_merge(log, cluster, monkeypatch):
    for least, has_filter in ((100, True), (100_000, False)):
        monkeypatch.setattr("broker_core.object_cluster.staged_upload.MIN_FILTERED_UPLOAD_BYTES", least)
        upload = cluster.stage()
        upload.append(T0, build_batch([Record(key=b"k", value=b"v" * 100)]))
        upload.append(TopicPartition("t", 1), build_batch([Record(key=b"l", value=b"v" * 100)]))
        staged = upload.finish()
        assert [bool(row[2][-1]) for row in staged.ranges] == [has_filter] * 2
        cluster.commit_staged([staged])
    assert cluster.ranges_with_key(T0, b"l", 0, 2).ranges == ((1, 2),)
    # Both uploads are read as they were written.
    assert [cluster.fetch(T0, offset, max_bytes=1).next_offset for offset in (0, 1)] == [1, 2]


def test_a_look_up_reads_a_block_for_each_range_and_nothing_twice(log, merged):
    counted = CountedObjects(now_ms=log.clock.now_ms, shared=log.store)
    cluster = log.open(counted)
    cluster.bounds(T0)
    with cluster.one_look():
        cluster.bounds(T0)
        counted.taken()
        before = Counter(counted.requests)
        assert cluster.ranges_with_key(T0, b"none", 0, 41).ranges == ((40, 41),)
        filtered = len(ranges_of(merged)) - 1
        taken = counted.taken()
        assert (taken.size_bytes, taken.turns) == (4096 * filtered, 1)
        assert Counter(counted.requests) - before == {"get_ranges": 1}
        cluster.ranges_with_key(T0, b"none", 0, 41)
        assert counted.taken().requests == 0


def test_of_very_many_filters_those_of_the_largest_ranges_are_asked(merged, monkeypatch):
    monkeypatch.setattr(range_filters, "MAX_LOOKED_UP_RANGE_COUNT", 2)
    placed = ranges_of(merged)[:-1]
    found = merged.ranges_with_key(T0, b"none", 0, 40)
    skipped = sorted((one.data.size_bytes for one in placed), reverse=True)[:2]
    assert found.skipped_bytes == sum(skipped)


@pytest.mark.parametrize("damage", ["flipped", "cut", "missing"])
def test_a_damaged_filter_excludes_nothing_and_is_named_by_verification(log, merged, damage):
    first = ranges_of(merged)[0].data
    data = bytearray(log.store.objects[first.object])
    if damage == "flipped":
        data[first.position + first.size_bytes + 64 + 100] ^= 1
        log.store.objects[first.object] = bytes(data)
    elif damage == "cut":
        log.store.objects[first.object] = bytes(data[: first.position + first.size_bytes + 70])
    else:
        del log.store.objects[first.object]
    found = log.open().ranges_with_key(T0, b"none", 0, 40).ranges
    assert found == (((0, 40),) if damage != "flipped" else ((0, first.offset_count),))
    if damage == "flipped":
        (finding,) = [one for each in log.open().inspect_ranges(T0) for one in each.findings]
        assert (finding.file, finding.is_damage) == (first.object, False)
        assert finding.problem == "a block of the key filter is damaged"
        assert finding.position == first.position + first.size_bytes + 64


def test_verification_names_a_filter_that_hides_records(log, merged):
    first = ranges_of(merged)[0].data
    second = ranges_of(merged)[1].data
    data = bytearray(log.store.objects[first.object])
    source = second.position + second.size_bytes + 64
    target = first.position + first.size_bytes + 64
    data[target : target + 4096] = data[source : source + 4096]
    log.store.objects[first.object] = bytes(data)
    (finding,) = [one for each in log.open().inspect_ranges(T0) for one in each.findings]
    assert (finding.problem, finding.is_damage) == ("the key filter misses an existing key", True)


def test_a_store_that_does_not_answer_is_asked_once_and_excludes_nothing(log, merged, monkeypatch):
    asked = []

    class Silent(CountedObjects):
        def get_ranges(self, path, ranges):
            asked.append(path)
            raise ObjectStoreUnavailableError("no answer")

    monkeypatch.setattr("broker_core.object_cluster.staged_upload.MIN_FILTERED_UPLOAD_BYTES", 1)
    upload = merged.stage()
    upload.append(T0, build_batch([Record(key=b"another", value=b"v")]))
    merged.commit_staged([upload.finish()])
    cluster = log.open(Silent(now_ms=log.clock.now_ms, shared=log.store))
    assert len({one.data.object for one in ranges_of(merged) if one.data.filter_bytes}) == 2
    assert cluster.ranges_with_key(T0, b"none", 0, 42).ranges == ((0, 42),)
    assert len(asked) == 1


def test_an_unknown_topic_is_refused(cluster):
    with pytest.raises(UnknownTopicError):
        cluster.ranges_with_key(TopicPartition("none", 0), b"k", 0, 1)
