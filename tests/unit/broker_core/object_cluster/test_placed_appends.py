"""Batches at given offsets, in a log on object storage."""

import pytest
from support.builders.builders import a_batch
from support.builders.committed_rows import committed_rows

from broker_core.model.exceptions import UnexpectedLogEndError
from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster import placed_appends
from broker_core.placed_writes import PlacedAppend

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def placed(from_offset, until_offset, *batches, partition=FIRST, log_start=None):
    return PlacedAppend(
        partition=partition,
        from_offset=from_offset,
        until_offset=until_offset,
        batches=bytearray(b"".join(batches)),
        log_start_offset=log_start,
    )


def offsets_in(cluster):
    return [(row["partition"], row["offset"]) for row in committed_rows(cluster, "t")]


def bounds_of(cluster, partition=FIRST):
    found = cluster.bounds(partition)
    return found.log_start_offset, found.log_end_offset


def test_one_commit_appends_to_several_partitions_and_keeps_gaps(log, cluster):
    before = log.store.requests["put_if_absent"]
    cluster.append_placed(
        [
            placed(0, 8, a_batch(2, base_offset=3)),
            placed(8, 12, a_batch(1, base_offset=10)),
            placed(0, 1002, a_batch(2, base_offset=1000), partition=SECOND, log_start=1000),
        ]
    )
    assert log.store.requests["put_if_absent"] == before + 1
    with log.open(create=False) as again:
        assert offsets_in(again) == [(0, 3), (0, 4), (0, 10), (1, 1000), (1, 1001)]
        assert (bounds_of(again), bounds_of(again, SECOND)) == ((0, 12), (1000, 1002))
        assert again.append(FIRST, a_batch(1)).base_offset == 12


def test_gaps_survive_a_checkpoint_and_a_merge(log, cluster):
    cluster.alter_topic_configs("t", {"retention.ms": "-1"})
    for number in range(12):
        start = number * 10
        cluster.append_placed([placed(start, start + 10, a_batch(2, base_offset=start + 3))])
    expected = offsets_in(cluster)
    assert len(expected) == 24
    report = cluster.maintain(grace_ms=0)
    assert not report.errors
    with log.open(create=False) as again:
        assert offsets_in(again) == expected
        assert len(again.describe_segments(FIRST)) < 12
        assert bounds_of(again) == (0, 120)


def test_a_partition_without_records_can_end_anywhere(log, cluster):
    cluster.append_placed([placed(0, 5000, log_start=5000)])
    assert not [path for path in log.store.objects if path.startswith("data/")]
    assert bounds_of(cluster) == (5000, 5000)
    cluster.append_placed([placed(5000, 5003, log_start=5000)])
    assert bounds_of(cluster) == (5000, 5003)


def test_nothing_to_change_makes_no_commit(log, cluster):
    cluster.append_placed([placed(0, 3, a_batch(3))])
    before = log.store.requests["put_if_absent"]
    cluster.append_placed([placed(3, 3)])
    assert log.store.requests["put_if_absent"] == before


def test_large_appends_become_several_ranges(monkeypatch, cluster):
    monkeypatch.setattr(placed_appends, "MAX_RANGE_BYTES", 300)
    batches = [a_batch(2, base_offset=5 * number) for number in range(8)]
    cluster.append_placed([placed(0, 50, *batches)])
    segments = cluster.describe_segments(FIRST)
    assert len(segments) > 2 and max(segment.size_bytes for segment in segments) <= 300
    assert [offset for _, offset in offsets_in(cluster)] == [5 * n + delta for n in range(8) for delta in (0, 1)]
    assert bounds_of(cluster) == (0, 50)


def test_another_writer_in_between_is_noticed_and_nothing_is_appended(log, cluster):
    with log.open() as other:
        other.append(FIRST, a_batch(1))
    with pytest.raises(UnexpectedLogEndError, match="ends at offset 1, not at 0"):
        cluster.append_placed([placed(0, 3, a_batch(3)), placed(0, 3, a_batch(3), partition=SECOND)])
    assert offsets_in(cluster) == [(0, 0)]
