"""What `consume` does when its topic changes while it reads, in a directory and on object storage."""

import pytest
from support.builders.builders import a_batch, a_record
from support.clients.following import between_polls

from broker_core.cli import consumed_topic
from broker_core.cli.consumed_topic import ConsumedTopic
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.exceptions import UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster.open_objects import open_objects


@pytest.fixture(params=["directory", "objects"])
def log_path(request, tmp_path):
    return tmp_path / "log" if request.param == "directory" else f"objects://{tmp_path}/log"


@pytest.fixture
def cluster(log_path):
    """Another process's way into the log, with topic `t` of one partition and the value `first`."""
    opener = open_objects if str(log_path).startswith("objects") else open_embedded
    with opener(log_path, create=True) as opened:
        opened.create_topic("t", partition_count=1)
        put(opened, 0, b"first")
        yield opened


def put(cluster, number, *values):
    cluster.append(TopicPartition("t", number), a_batch([a_record(n, value=value) for n, value in enumerate(values)]))


def recreate(cluster, *values):
    cluster.delete_topic("t")
    cluster.create_topic("t", partition_count=1)
    if values:
        put(cluster, 0, *values)


@pytest.mark.parametrize("options", [(), ("--group", "g"), ("--last", 0), ("--from", "latest")])
def test_follow_reads_added_partitions_from_their_start(streamlog, cluster, monkeypatch, options):
    def add():
        cluster.create_partitions("t", 3)
        put(cluster, 2, b"a", b"b")

    between_polls(monkeypatch, add, lambda: put(cluster, 1, b"c"))
    found = streamlog("consume", "t", "--follow", *options)
    assert found.status == 130
    seen = [b"a", b"b", b"c"]
    assert found.lines == (seen if "--last" in options or "--from" in options else [b"first", *seen])
    if options == ("--group", "g"):
        committed = {partition.partition: each.offset for partition, each in cluster.fetch_offsets("g").items()}
        assert committed == {0: 1, 1: 1, 2: 2}


def test_follow_of_a_single_partition_reads_no_added_ones(streamlog, cluster, monkeypatch):
    between_polls(monkeypatch, lambda: cluster.create_partitions("t", 2), lambda: put(cluster, 1, b"a"))
    assert streamlog("consume", "t", "--follow", "--partition", 0).lines == [b"first"]


@pytest.mark.parametrize("options", [(), ("--group", "g"), ("--partition", 0)])
@pytest.mark.parametrize("values", [(), (b"new",), (b"new", b"second")])
def test_follow_ends_when_the_topic_is_deleted_and_created_again(streamlog, cluster, monkeypatch, values, options):
    between_polls(monkeypatch, lambda: recreate(cluster, *values))
    found = streamlog("consume", "t", "--follow", *options)
    assert (found.status, found.lines) == (1, [b"first"])
    assert "'t' was deleted and created again" in found.err


def test_records_of_a_topic_created_again_are_not_read_before_the_next_look(streamlog, cluster, monkeypatch):
    between_polls(monkeypatch, lambda: recreate(cluster, b"new", b"second"), look_seconds=1000)
    found = streamlog("consume", "t", "--follow")
    assert (found.status, found.lines) == (1, [b"first"])
    assert "'t' was deleted and created again" in found.err


def test_follow_ends_when_the_topic_is_deleted(streamlog, cluster, monkeypatch):
    between_polls(monkeypatch, lambda: cluster.delete_topic("t"))
    found = streamlog("consume", "t", "--follow")
    assert found.status == 1
    assert "'t' was deleted while it was read" in found.err


def test_partitions_are_found_once_also_if_a_broker_has_not_heard_of_them(cluster, monkeypatch):
    monkeypatch.setattr(consumed_topic, "LOOK_SECONDS", 0)
    consumed = ConsumedTopic(cluster, "t", only=None)
    before = cluster.describe_topics(["t"])
    cluster.create_partitions("t", 2)
    assert consumed.maybe_added() == [TopicPartition("t", 1)]
    with monkeypatch.context() as patch:
        patch.setattr(cluster, "describe_topics", lambda names: before)
        assert consumed.maybe_added() == []
    assert consumed.maybe_added() == []


def test_the_look_is_not_repeated_at_each_poll(cluster):
    consumed = ConsumedTopic(cluster, "t", only=None)
    cluster.delete_topic("t")
    assert consumed.maybe_added() == []


def test_other_refused_requests_are_reported_as_they_are(cluster):
    consumed = ConsumedTopic(cluster, "t", only=None)
    with pytest.raises(UnknownTopicError, match="another"), consumed.watched():
        raise UnknownTopicError("another", topic="u")
