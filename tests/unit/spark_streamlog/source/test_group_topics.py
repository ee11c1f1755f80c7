import logging

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.builders.append_records import append_values
from support.objects.object_builders import MemoryLog
from support.spark.read_query import StreamRun

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.exceptions import AuthorizationError, DiskFullError, StorageError
from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import ConditionError

IDS_GROUP = "streamlog-topics-g"
ONE = TopicPartition("__consumer_offsets", 0)


class CommitCount:
    """Counts the commits of each group of a cluster, and can refuse those of one."""

    def __init__(self, cluster):
        self.counts = {}
        self.refused = {}
        self._commit = cluster.commit_offsets
        cluster.commit_offsets = self

    def __call__(self, group_id, offsets):
        self.counts[group_id] = self.counts.get(group_id, 0) + 1
        if group_id in self.refused:
            raise self.refused[group_id]
        self._commit(group_id, offsets)


@pytest.fixture
def cluster():
    cluster = InMemoryCluster()
    cluster.create_topic("t")
    cluster.add("t", "a", "b")
    return cluster


def stream_of(cluster, checkpoint=None, **given):
    return StreamRun(cluster, checkpoint, startingOffsets="earliest", groupId="g", **given)


def test_the_ids_are_an_offset_that_goes_with_no_other_topic(cluster):
    stream_of(cluster).run_all()
    cluster.delete_topic("t")
    (partition,) = stored = cluster.fetch_offsets(IDS_GROUP)
    assert partition == ONE
    assert stored[ONE].metadata.startswith('streamlog-topic-ids:{"ids":[{"t":')


def test_a_batch_costs_one_commit_and_an_idle_trigger_none(cluster):
    commits = CommitCount(cluster)
    stream = stream_of(cluster)
    assert stream.run_batch() == ["a", "b"]
    assert commits.counts[IDS_GROUP] == 1
    for _ in range(5):
        assert stream.run_batch() is None
    assert commits.counts[IDS_GROUP] == 1
    cluster.add("t", "c")
    assert stream.run_batch() == ["c"]
    assert commits.counts[IDS_GROUP] == 2


@pytest.mark.parametrize(
    "error", [AuthorizationError("no access"), DiskFullError("no space"), StorageError("a fault"), OSError("gone")]
)
def test_a_group_that_may_not_be_written_is_one_warning_and_tried_again_after_a_while(cluster, caplog, error):
    commits = CommitCount(cluster)
    commits.refused[IDS_GROUP] = error
    stream = stream_of(cluster)
    with caplog.at_level(logging.WARNING):
        for value in "cdef":
            cluster.add("t", value)
            assert stream.run_batch()[-1] == value
    assert [record.message for record in caplog.records] == [
        f"The topic ids of the query cannot be stored in the group {IDS_GROUP}: {error}. If a topic is deleted and"
        " recreated while the query is not running, the query may not detect it"
    ]
    assert commits.counts[IDS_GROUP] == 1
    assert cluster.fetch_offsets("g")[TopicPartition("t", 0)].offset > 0
    commits.refused.clear()
    stream.now_ms += 10_000
    assert stream.run_batch() is None
    assert commits.counts[IDS_GROUP] == 2
    assert ONE in cluster.fetch_offsets(IDS_GROUP)


@pytest.mark.parametrize(
    "metadata", ["", "by hand", "streamlog-topic-ids:{", "streamlog-topic-ids:[]", 'streamlog-topic-ids:{"ids":1}']
)
def test_an_offset_that_holds_no_ids_says_nothing(cluster, metadata):
    stream = stream_of(cluster)
    stream.run_all()
    stored = cluster.fetch_offsets(IDS_GROUP)[ONE]
    cluster.commit_offsets(IDS_GROUP, {ONE: type(stored)(offset=0, metadata=metadata)})
    cluster.add("t", "c")
    assert stream_of(cluster, stream.committed, failOnDataLoss=True).run_all() == ["c"]


@pytest.mark.parametrize("place", ["directory", "objects"])
def test_a_topic_recreated_behind_the_stopped_stream_of_one_topic_is_found(tmp_path, place):
    objects = MemoryLog()

    def opened():
        return open_embedded(tmp_path / "log", create=True) if place == "directory" else objects.open()

    with opened() as log:
        log.create_topic("t")
        append_values(log, "t", "a", "b")
        stream = stream_of(log)
        assert stream.run_all() == ["a", "b"]
    with opened() as log:
        log.delete_topic("t")
        log.create_topic("t")
        append_values(log, "t", "x", "y", "z")
        assert log.fetch_offsets("g") == {}
    with opened() as log:
        with pytest.raises(ConditionError, match="TOPIC_RECREATED"):
            stream_of(log, stream.committed).run_batch()
        assert stream_of(log, stream.committed, failOnDataLoss=False).run_all() == ["x", "y", "z"]
