"""Replicas are assigned to directories of their broker."""

from uuid import UUID

import pytest
from support.controller.small_cluster import SmallCluster, directory

from broker_core.controller.cluster_facts import UNASSIGNED_DIRECTORY
from broker_core.controller.directory_assignments import plan_directory_assignments

OTHER, GONE = UUID(int=5001), UUID(int=5009)


@pytest.fixture
def cluster():
    cluster = SmallCluster()
    cluster.start(1, log_dirs=(directory(1), OTHER))
    cluster.start(2)
    cluster.create("t", (1, 2))
    cluster.create("other", (2,))
    return cluster


def assign(cluster, place, number=0, *, topic_id=None, broker_id=1, times=1):
    """The names of the errors."""
    topic_id = cluster.image.topics["t"].topic_id if topic_id is None else topic_id
    places = [(place, topic_id, number), (directory(1), topic_id, number)][:times]
    broker = cluster.image.registrations.brokers[broker_id]
    errors = cluster.ask(lambda facts: plan_directory_assignments(facts, broker, places))
    return [errors[each].name for each in places]


def test_a_broker_with_several_directories_chooses_and_says_which_one(cluster):
    assert cluster.partition("t").directories == (UNASSIGNED_DIRECTORY, directory(2))
    before = cluster.partition("t")
    assert assign(cluster, OTHER) == ["none"]
    after = cluster.partition("t")
    assert after.directories == (OTHER, directory(2))
    assert (after.leader, after.isr, after.leader_epoch) == (before.leader, before.isr, before.leader_epoch)
    written = len(cluster.log)
    assert assign(cluster, OTHER) == ["none"]
    assert len(cluster.log) == written


def test_a_replica_in_a_directory_that_is_offline_leaves_its_isr(cluster):
    assert assign(cluster, GONE) == ["none"]
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))
    assert cluster.partition("t").directories == (GONE, directory(2))


def test_what_the_broker_does_not_hold_is_refused(cluster):
    assert assign(cluster, OTHER, topic_id=UUID(int=9)) == ["unknown_topic_id"]
    assert assign(cluster, OTHER, 7) == ["unknown_topic_or_partition"]
    assert assign(cluster, OTHER, topic_id=cluster.image.topics["other"].topic_id) == ["not_leader_or_follower"]


def test_a_replica_is_in_one_directory(cluster):
    assert assign(cluster, OTHER, times=2) == ["none", "invalid_request"]
    assert cluster.partition("t").directories[0] == OTHER
