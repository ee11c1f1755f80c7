"""Streams over transactions: aborted records never show, gaps of markers are no loss, every run finds its end."""

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.read_query import StreamRun, at

UNCOMMITTED = {"kafka__isolation__level": "read_uncommitted"}


@pytest.fixture
def cluster():
    cluster = InMemoryCluster()
    cluster.create_topic("t")
    return cluster


def run(cluster, checkpoint=None, **given):
    return StreamRun(cluster, checkpoint, **({"startingOffsets": "earliest"} | given))


def aborted_tail(cluster):
    cluster.add("t", "x0", "x1", producer_id=1)
    cluster.write_marker("t", 1, is_commit=False)


def committed_tail(cluster):
    cluster.write_marker("t", 7, is_commit=True)
    cluster.write_marker("t", 8, is_commit=True)


def compacted_tail(cluster):
    cluster.add("t", "gone")
    cluster.compact_away("t", 1)


def mixed_tail(cluster):
    for number in range(3):
        cluster.add("t", f"x{number}", producer_id=1)
        cluster.add("t", f"y{number}", producer_id=2)
        cluster.write_marker("t", 2, is_commit=False)
        cluster.write_marker("t", 1, is_commit=False)


LIMITS = [
    {},
    {"maxOffsetsPerTrigger": 1},
    {"maxBytesPerTrigger": 1},
    {"minPartitions": 4},
    {"minOffsetsPerTrigger": 50},
]


@pytest.mark.parametrize("limits", LIMITS, ids=lambda limits: next(iter(limits), "no limit"))
@pytest.mark.parametrize("available_now", [False, True])
@pytest.mark.parametrize("tail", [aborted_tail, committed_tail, compacted_tail, mixed_tail])
def test_a_run_skips_a_tail_without_visible_records_and_ends(cluster, tail, available_now, limits):
    cluster.add("t", "a")
    tail(cluster)
    end = cluster.bounds(next(iter(at(t_0=0)))).log_end_offset
    stream = run(cluster, available_now=available_now, **limits)
    assert stream.run_all() == ["a"]
    if "minOffsetsPerTrigger" not in limits or available_now:
        assert stream.committed == at(t_0=end)
    cluster.add("t", "b")
    assert run(cluster, stream.committed, available_now=available_now, **limits).run_all() == ["b"]


def test_a_run_over_only_aborted_records_has_no_rows_and_ends(cluster):
    mixed_tail(cluster)
    assert run(cluster, available_now=True, maxOffsetsPerTrigger=2).run_all() == []
    assert run(cluster, available_now=True, **UNCOMMITTED).run_all() == ["x0", "y0", "x1", "y1", "x2", "y2"]


@pytest.mark.parametrize("limits", [{}, {"maxOffsetsPerTrigger": 1}, {"maxBytesPerTrigger": 1}])
def test_an_open_transaction_blocks_only_read_committed_runs(cluster, limits):
    cluster.add("t", "a")
    cluster.add("t", "open", producer_id=1)
    cluster.add("t", "b")
    stream = run(cluster, available_now=True, **limits)
    assert stream.run_all() == ["a"]
    assert run(cluster, available_now=True, **limits, **UNCOMMITTED).run_all() == ["a", "open", "b"]
    cluster.write_marker("t", 1, is_commit=True)
    assert run(cluster, stream.committed, available_now=True, **limits).run_all() == ["open", "b"]


def test_a_transaction_that_aborts_after_the_run_began_is_left_to_the_next_run(cluster):
    cluster.add("t", "a")
    cluster.add("t", "x", producer_id=1)
    stream = run(cluster, available_now=True)
    cluster.write_marker("t", 1, is_commit=False)
    cluster.add("t", "b")
    assert stream.run_all() == ["a"]
    assert run(cluster, stream.committed, available_now=True).run_all() == ["b"]


@pytest.mark.parametrize("limit", range(1, 12))
def test_batches_that_end_inside_transactions_return_each_visible_record_once(cluster, limit):
    for number in range(4):
        cluster.add("t", f"c{number}", f"d{number}", producer_id=1)
        cluster.add("t", f"x{number}", f"y{number}", producer_id=2)
        cluster.add("t", f"p{number}")
    cluster.write_marker("t", 2, is_commit=False)
    cluster.write_marker("t", 1, is_commit=True)
    expected = [f"{letter}{number}" for number in range(4) for letter in "cdp"]
    assert run(cluster, maxOffsetsPerTrigger=limit).run_all() == expected
