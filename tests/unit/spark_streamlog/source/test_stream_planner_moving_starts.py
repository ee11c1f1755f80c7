"""Starts that name other offsets when they are asked again: the first batch must be repeatable all the same."""

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.read_query import StreamRun, at

from broker_core.cluster import GroupOffset
from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import ConditionError

T0 = TopicPartition("t", 0)
NOW_MS = 1_000_000
MOVING = ["-4s", "latest-3", "group:g", "latest"]


@pytest.fixture
def cluster():
    """Ten records, one each second until now; the group `g` has read the first seven."""
    cluster = InMemoryCluster()
    cluster.create_topic("t")
    write(cluster, *range(10))
    commit(cluster, 7)
    return cluster


def write(cluster, *numbers):
    for number in numbers:
        cluster.add("t", str(number), timestamps_ms=(NOW_MS - 9_000 + 1000 * number,))


def commit(cluster, offset):
    cluster.commit_offsets("g", {T0: GroupOffset(offset=offset)})


def run(cluster, checkpoint=None, now_ms=NOW_MS, **given):
    return StreamRun(cluster, checkpoint, now_ms=now_ms, **given)


def numbers(*bounds):
    return [str(number) for number in range(*bounds)]


@pytest.mark.parametrize(("start", "first"), [("-4s", 5), ("latest-3", 7), ("group:g", 7), ("latest", 10)])
def test_a_query_reads_from_its_start_after_an_empty_first_batch(cluster, start, first):
    stream = run(cluster, startingOffsets=start)
    assert stream.next_end() == (at(t_0=first), at(t_0=first))
    stream = run(cluster, startingOffsets=start)
    stream.planner.initial_offset()
    write(cluster, 10)
    assert stream.run_batch() == []
    assert stream.committed == at(t_0=first)
    assert stream.run_all() == numbers(first, 11)


@pytest.mark.parametrize("start", MOVING)
@pytest.mark.parametrize("later_group_offset", [0, 7, 9])
def test_a_first_batch_repeated_after_a_crash_is_the_same_empty_one(cluster, start, later_group_offset):
    first_run = run(cluster, startingOffsets=start)
    began, end = first_run.next_end()
    assert began == end
    write(cluster, *range(10, 15))
    commit(cluster, later_group_offset)
    stream = run(cluster, startingOffsets=start, now_ms=NOW_MS + 60_000)
    assert stream.run_batch(end) == []
    assert stream.run_all() == numbers(end[T0], 15)


@pytest.mark.parametrize("start", ["-4s", "latest-3"])
def test_a_repeated_first_batch_stays_empty_when_the_start_moves_back(cluster, start):
    _, end = run(cluster, startingOffsets=start).next_end()
    stream = run(cluster, startingOffsets="latest-9" if start == "latest-3" else "-1h")
    assert stream.run_batch(end) == []
    assert stream.run_all() == numbers(end[T0], 10)


def test_a_log_truncated_before_a_repeated_first_batch_is_a_loss_in_the_next_batch(cluster):
    _, end = run(cluster, startingOffsets="latest").next_end()
    cluster.truncate("t", 6)
    stream = run(cluster, startingOffsets="latest")
    assert stream.run_batch(end) == []
    with pytest.raises(ConditionError, match=r"PARTITION_OFFSET_CHANGED.*t-0 is offset 6, below offset 10"):
        stream.run_batch()


@pytest.mark.parametrize("start", MOVING)
def test_a_checkpoint_takes_precedence_over_the_start(cluster, start):
    assert run(cluster, at(t_0=2), startingOffsets=start).run_all() == numbers(2, 10)


def test_a_start_is_resolved_once_in_a_run(cluster):
    stream = run(cluster, startingOffsets="-4s")
    began, _ = stream.next_end()
    stream.now_ms += 3_000
    assert stream.planner.initial_offset() == began == at(t_0=5)


@pytest.mark.parametrize(("start", "first"), [("-4s", 5), ("latest-3", 7), ("group:g", 7), ("latest", 10)])
def test_a_run_with_available_now_reads_from_a_moving_start_to_its_end(cluster, start, first):
    stream = run(cluster, startingOffsets=start, available_now=True, maxOffsetsPerTrigger=2)
    write(cluster, 10)
    assert stream.run_all() == numbers(first, 10)


def test_a_partition_added_during_the_query_is_read_from_its_start(cluster):
    stream = run(cluster, startingOffsets="latest-3")
    assert stream.run_all() == numbers(7, 10)
    cluster.create_partitions("t", 2)
    cluster.add("t", *"abcde", partition=1)
    assert stream.run_all() == list("abcde")


def test_a_restart_with_read_committed_waits_for_an_open_transaction_and_loses_nothing(cluster):
    cluster.add("t", "open", producer_id=1)
    cluster.add("t", "behind")
    uncommitted = run(cluster, startingOffsets="latest-1", kafka__isolation__level="read_uncommitted")
    assert uncommitted.run_all() == ["behind"]
    stream = run(cluster, uncommitted.committed)
    assert stream.run_batch() is None
    cluster.add("t", "more")
    assert stream.run_batch() is None
    cluster.write_marker("t", 1, is_commit=True)
    assert stream.run_all() == ["more"]
