"""Replicas of topics at brokers, decided by a controller of ours: see fronted_cluster."""

import pytest
from support.controller.fronted_cluster import END_OFFSET, FrontedCluster


@pytest.fixture
def cluster():
    with FrontedCluster(1, 2, 3) as fronted:
        yield fronted


@pytest.fixture
def topic(streamlog, cluster):
    return lambda *words: streamlog("topic", *words, "--bootstrap-server", cluster.address, with_path=False)


def replicas_of(topic, name):
    return [each["replicas"] for each in topic("describe", name, "--json").json["partitions"]]


def test_a_topic_gets_as_many_replicas_as_asked_for(topic):
    created = topic("create", "t", "--partitions", "2", "--replication-factor", "3")
    assert (created.status, created.err) == (0, "created topic t with 2 partitions\n")
    assert [sorted(replicas) for replicas in replicas_of(topic, "t")] == [[1, 2, 3], [1, 2, 3]]


def test_a_topic_gets_the_replicas_that_are_given_in_their_order(topic):
    assert topic("create", "t", "--replica-assignment", "2:1,3:2,1:3", "--config", "retention.ms=1000").status == 0
    assert replicas_of(topic, "t") == [[2, 1], [3, 2], [1, 3]]


def test_more_replicas_than_brokers_are_refused_with_both_numbers(topic):
    refused = topic("create", "t", "--replication-factor", "4")
    assert refused.status == 1
    assert "4" in refused.err and "3" in refused.err and "topic 't'" in refused.err


def test_a_description_has_leader_replicas_and_isr_also_of_a_partition_without_a_leader(topic, cluster):
    cluster.small.create("t", (1, 2), (3, 2))
    cluster.small.fence(2)
    cluster.small.fence(3)
    shown = topic("describe", "t")
    rows = [line.split() for line in shown.out.decode().splitlines()]
    assert ["0", "1", "0", "1,2", "1", "-", "0", *[str(END_OFFSET)] * 3] in rows
    assert ["1", "-", "1", "3,2", "-", "3", *"----"] in rows
    assert "offsets of t-1 are unknown" in shown.err
    first, second = topic("describe", "t", "--json").json["partitions"]
    assert (first["leader"], first["isr"], first["log_end_offset"]) == (1, [1], END_OFFSET)
    assert (second["leader"], second["replicas"], second["log_end_offset"]) == (None, [3, 2], None)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--replica-assignment", "1:2", "--partitions", "1"), "--replica-assignment excludes --partitions"),
        (("--replica-assignment", "1:2", "--replication-factor", "2"), "--replica-assignment excludes"),
        (("--replica-assignment", "1:x"), "'1:x' is not broker ids with colons between them"),
        (("--replica-assignment", "1:2,"), "'' is not broker ids"),
        (("--replica-assignment", "1:1"), "--replica-assignment 1:1: broker 1 is there twice"),
        (("--replica-assignment", "1:2,3"), "partitions have different numbers of replicas"),
        (("--replication-factor", "0"), "Invalid value for '--replication-factor'"),
    ],
)
def test_wrong_replicas_are_wrong_usage(topic, words, reason):
    refused = topic("create", "t", *words)
    assert (refused.status, reason in refused.err) == (2, True), refused.err


@pytest.mark.parametrize("words", [("--replication-factor", "1"), ("--replica-assignment", "1")])
def test_a_directory_has_one_replica(streamlog, words):
    refused = streamlog("topic", "create", "t", *words)
    assert refused.status == 2
    assert f"{words[0]} needs --bootstrap-server: the partitions of a directory have one replica" in refused.err
