"""A stream's progress in a consumer group, as Spark's calls make it: before the first batch, after each one, idle."""

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.read_query import StreamRun, at

from broker_core.cluster import GroupOffset
from broker_core.model.exceptions import StorageError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.retention_pin import pinned_until_ms
from spark_streamlog.errors import ConditionError

T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster():
    cluster = InMemoryCluster()
    cluster.create_topic("t")
    cluster.add("t", "a", "b", "c")
    return cluster


def run(cluster, checkpoint=None, **given):
    return StreamRun(cluster, checkpoint, **({"startingOffsets": "earliest", "groupId": "g"} | given))


def committed(cluster):
    return {tp: entry.offset for tp, entry in cluster.fetch_offsets("g").items()}


def pinned_until(cluster):
    return pinned_until_ms(cluster.fetch_offsets("g")[T0].metadata)


def test_the_start_is_stored_first_and_each_end_with_the_next_request(cluster):
    stream = run(cluster, maxOffsetsPerTrigger=2)
    start, _ = stream.next_end()
    assert committed(cluster) == start == at(t_0=0)
    stream = run(cluster, maxOffsetsPerTrigger=2)
    assert stream.run_batch() == ["a", "b"]
    assert committed(cluster) == at(t_0=0)
    assert stream.run_batch() == ["c"]
    assert committed(cluster) == at(t_0=2)
    assert stream.run_batch() is None
    assert committed(cluster) == at(t_0=3)


def test_sparks_commit_stores_nothing_new(cluster):
    stream = run(cluster)
    stream.run_all()
    cluster.before_commit_offsets = lambda: pytest.fail("nothing new")
    stream.planner.commit(at(t_0=3))


def test_a_commit_with_new_offsets_is_stored(cluster):
    stream = run(cluster)
    stream.next_end()
    stream.planner.commit(at(t_0=2))
    assert committed(cluster) == at(t_0=2)


def test_a_query_without_a_group_stores_nothing(cluster):
    run(cluster, groupId="other").run_all()
    assert cluster.list_groups() == ("other", "streamlog-topics-other")


def test_an_unfinished_batch_of_an_earlier_run_is_stored_at_its_start_then_its_end(cluster):
    stream = run(cluster, at(t_0=1), pinRetention="60s")
    start, end = at(t_0=1), at(t_0=3)
    stream.planner.plan(start, end)
    assert committed(cluster) == start
    assert pinned_until(cluster) == 60_000
    stream.planner.latest_offset(end, max_offsets=None, is_limited=True)
    assert committed(cluster) == end


def test_a_repeated_first_batch_whose_start_has_moved_is_not_stored_beyond_its_end(cluster):
    _, end = run(cluster, startingOffsets="latest", groupId="x").next_end()
    cluster.add("t", "d", "e")
    stream = run(cluster, startingOffsets="latest")
    stream.planner.plan(stream.planner.initial_offset(), end)
    assert committed(cluster) == end == at(t_0=3)


def test_a_query_can_start_from_the_group_that_stores_its_progress(cluster):
    cluster.commit_offsets("g", {T0: GroupOffset(offset=1)})
    stream = run(cluster, startingOffsets="group:g")
    assert stream.run_all() == ["b", "c"]
    assert committed(cluster) == at(t_0=3)


def test_an_added_partition_is_pinned_at_its_start_even_while_the_query_waits(cluster):
    stream = run(cluster, pinRetention="60s", minOffsetsPerTrigger=10)
    stream.run_all()
    cluster.create_partitions("t", 2)
    cluster.add("t", "d", partition=1)
    assert stream.run_batch() is None
    assert committed(cluster) == at(t_0=3, t_1=0)


def test_a_recreated_topic_is_stored_from_its_own_start(cluster):
    stream = run(cluster, failOnDataLoss=False)
    stream.run_all()
    cluster.delete_topic("t")
    cluster.create_topic("t")
    cluster.add("t", "new")
    stream.next_end()
    # Spark's own commit comes then, and names what was done of the old topic.
    stream.planner.commit(at(t_0=3))
    assert committed(cluster) == at(t_0=0)
    assert stream.run_all() == ["new"]
    assert committed(cluster) == at(t_0=1)


def test_an_idle_query_renews_its_pin(cluster):
    stream = run(cluster, pinRetention="60s")
    stream.run_all()
    for _ in range(20):
        stream.now_ms += 10_000
        assert stream.run_batch() is None
        assert pinned_until(cluster) > stream.now_ms + 30_000
    assert committed(cluster) == at(t_0=3)


def test_progress_that_cannot_be_stored_does_not_stop_the_query(cluster):
    def refuse():
        raise StorageError("read-only")

    cluster.before_commit_offsets = refuse
    assert run(cluster).run_all() == ["a", "b", "c"]
    with pytest.raises(ConditionError, match="STREAMLOG_PIN_LOST"):
        run(cluster, pinRetention="60s").run_all()


def test_a_topic_deleted_under_a_pin_is_a_loss_and_not_a_lost_pin(cluster):
    cluster.create_topic("u")
    cluster.add("u", "x")
    stream = run(cluster, subscribePattern=".*", pinRetention="60s", failOnDataLoss=False)
    stream.run_all()
    cluster.delete_topic("u")
    cluster.add("t", "d")
    stream.now_ms += 30_000
    assert stream.run_all() == ["d"]
