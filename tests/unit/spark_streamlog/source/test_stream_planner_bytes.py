"""maxBytesPerTrigger in a stream: exact in whole batches, beside the other limits and triggers."""

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.read_query import StreamRun, at, read_all

from broker_core.model.identifiers import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster():
    cluster = InMemoryCluster()
    cluster.create_topic("t", partition_count=2)
    return cluster


@pytest.fixture
def batch_bytes(cluster):
    """Twenty batches of two records and of so many bytes each in t-0, two in t-1."""
    for number in range(20):
        cluster.add("t", f"{number:02}a", f"{number:02}b")
    for number in (90, 91):
        cluster.add("t", f"{number}a", f"{number}b", partition=1)
    return cluster.bytes_between(T0, 0, 2)


def run(cluster, checkpoint=None, **given):
    return StreamRun(cluster, checkpoint, **({"startingOffsets": "earliest"} | given))


def values(*batches):
    return [f"{number:02}{letter}" for number in batches for letter in "ab"]


def test_a_micro_batch_has_whole_record_batches_up_to_the_maximum(cluster, batch_bytes):
    stream = run(cluster, maxBytesPerTrigger=4 * batch_bytes, assign='{"t":[0]}')
    assert stream.run_batch() == values(0, 1, 2, 3)
    stream = run(cluster, stream.committed, maxBytesPerTrigger=4 * batch_bytes - 1, assign='{"t":[0]}')
    assert stream.run_batch() == values(4, 5, 6)


@pytest.mark.parametrize("maximum", [1, "1b", 2**63 - 1])
def test_every_maximum_makes_progress_to_the_end(cluster, batch_bytes, maximum):
    stream = run(cluster, maxBytesPerTrigger=maximum)
    assert sorted(stream.run_all()) == values(*range(20), 90, 91)
    assert len(stream.batches) == (22 if maximum in (1, "1b") else 1)


def test_partitions_share_in_proportion_to_bytes_and_small_ones_do_not_starve(cluster, batch_bytes):
    stream = run(cluster, maxBytesPerTrigger=4 * batch_bytes)
    assert [stream.run_batch() for _ in range(2)] == [values(0, 1, 2, 90), values(3, 4, 5, 91)]
    stream = run(cluster, maxBytesPerTrigger=1)
    assert [stream.run_batch() for _ in range(4)] == [values(0), values(90), values(1), values(91)]


def test_the_maximums_of_offsets_and_of_bytes_both_hold(cluster, batch_bytes):
    stream = run(cluster, maxOffsetsPerTrigger=3, maxBytesPerTrigger=10 * batch_bytes, assign='{"t":[0]}')
    assert stream.run_batch() == ["00a", "00b", "01a"]
    stream = run(cluster, maxOffsetsPerTrigger=30, maxBytesPerTrigger=2 * batch_bytes, assign='{"t":[0]}')
    assert stream.run_batch() == values(0, 1)
    stream = run(cluster, stream.committed, maxOffsetsPerTrigger=3, maxBytesPerTrigger=1, assign='{"t":[0]}')
    assert stream.run_all() == values(*range(2, 20))


def test_the_minimum_of_offsets_is_checked_before_the_maximum_of_bytes(cluster, batch_bytes):
    stream = run(
        cluster, minOffsetsPerTrigger=39, maxBytesPerTrigger=batch_bytes, maxTriggerDelay="5s", assign='{"t":[0]}'
    )
    assert stream.run_batch() == values(0), "the first batch always fires"
    assert stream.run_batch() is None
    stream.now_ms = 5_000
    assert stream.run_batch() == values(1)


def test_a_run_with_available_now_ends(cluster, batch_bytes):
    stream = run(cluster, available_now=True, maxBytesPerTrigger=3 * batch_bytes, minOffsetsPerTrigger=100)
    cluster.add("t", "late")
    assert sorted(stream.run_all()) == values(*range(20), 90, 91)
    assert all(len(batch) <= 6 for batch in stream.batches)


def test_the_maximum_is_ignored_if_spark_requests_all_offsets(cluster, batch_bytes):
    stream = run(cluster, maxBytesPerTrigger=1)
    assert len(stream.run_batch(is_limited=False)) == 44


def test_gaps_and_markers_at_the_end_are_skipped(cluster, batch_bytes):
    cluster.add("t", "x", producer_id=1)
    cluster.write_marker("t", 1, is_commit=False)
    cluster.compact_away("t", *range(3, 19))
    for available_now in (False, True):
        stream = run(cluster, available_now=available_now, maxBytesPerTrigger=1, assign='{"t":[0]}')
        assert stream.run_all() == values(0, 1, 2, 19)
        assert stream.committed == at(t_0=42)


def test_deleted_records_do_not_count_towards_the_maximum(cluster, batch_bytes):
    stream = run(cluster, at(t_0=0, t_1=4), maxBytesPerTrigger=2 * batch_bytes, failOnDataLoss=False)
    cluster.delete_records(T0, 30)
    assert stream.run_batch() == values(15, 16)


def test_a_topic_deleted_while_it_is_measured_is_left_to_its_tasks(cluster, batch_bytes):
    cluster.create_topic("u")
    cluster.add("u", "a", "b")
    asked = []
    bytes_between = cluster.bytes_between

    def vanishing(partition, *rest):
        if not asked:
            cluster.delete_topic("u")
        asked.append(partition)
        return bytes_between(partition, *rest)

    stream = run(cluster, subscribePattern=".*", maxBytesPerTrigger=2 * batch_bytes, failOnDataLoss=False)
    start = stream.planner.initial_offset()
    cluster.bytes_between = vanishing
    end = stream.planner.latest_offset(start, max_offsets=None, is_limited=True)
    assert asked
    assert end[TopicPartition("u", 0)] == 2
    assert len(read_all(cluster, stream.planner.plan(start, end), stream.options)) == 4
