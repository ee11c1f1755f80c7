"""Partitions move: begun, overtaken by another one, called off, ended by the ISR."""

import pytest
from support.controller.small_cluster import SmallCluster

from broker_core.controller.config_plans import ConfigChange, plan_config_changes
from broker_core.controller.isr_changes import IsrProposal, plan_isr_change
from broker_core.controller.reassignments import plan_reassignment, reassignments
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.metadata.config_resource import ConfigResource
from broker_core.model.exceptions import StreamlogError


@pytest.fixture
def cluster():
    cluster = SmallCluster(1, 2, 3, 4)
    cluster.create("t", (1, 2))
    return cluster


def reassign(cluster, replicas, *, number=0, topic="t", may_change_factor=True):
    cluster.ask(lambda facts: plan_reassignment(facts, topic, number, replicas, may_change_factor=may_change_factor))
    state = cluster.partition("t")
    return state.replicas, state.adding_replicas, state.removing_replicas


def set_isr(cluster, *isr):
    state = cluster.partition("t")
    proposal = IsrProposal(
        leader_id=state.leader, topic_id=cluster.image.topics["t"].topic_id, number=0, leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch, isr=[(member, -1) for member in isr], recovery_state=0,
    )  # fmt: skip
    record = plan_isr_change(cluster.facts, proposal).record
    cluster.ask(lambda facts: CoordinatorResult(records=() if record is None else (record,), reply=None))
    state = cluster.partition("t")
    return state.replicas, state.adding_replicas, state.removing_replicas


def test_new_replicas_are_added_before_old_ones_leave(cluster):
    assert reassign(cluster, [3, 2]) == ((3, 2, 1), (3,), (1,))
    assert [(topic, number) for topic, number, _ in reassignments(cluster.facts)] == [("t", 0)]
    assert set_isr(cluster, 1, 2) == ((3, 2, 1), (3,), (1,))
    assert set_isr(cluster, 1, 2, 3) == ((3, 2), (), ())
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (3, (2, 3))
    assert not list(reassignments(cluster.facts))


def test_one_that_adds_nothing_ends_at_once(cluster):
    before = cluster.partition("t").leader_epoch
    assert reassign(cluster, [1]) == ((1,), (), ())
    assert cluster.partition("t").leader_epoch == before + 1


def test_another_order_makes_another_replica_the_preferred_one(cluster):
    assert reassign(cluster, [2, 1]) == ((2, 1), (), ())
    assert cluster.partition("t").leader == 1


def test_a_second_one_takes_the_place_of_the_first(cluster):
    reassign(cluster, [3, 2])
    assert reassign(cluster, [4, 2]) == ((4, 2, 1, 3), (4,), (1, 3))
    assert set_isr(cluster, 1, 2, 4) == ((4, 2), (), ())


def test_one_that_is_called_off_leaves_the_partition_where_it_was(cluster):
    reassign(cluster, [3, 4])
    set_isr(cluster, 1, 2, 3)
    assert reassign(cluster, None) == ((1, 2), (), ())
    assert (cluster.partition("t").isr, cluster.partition("t").leader) == ((1, 2), 1)


def test_it_is_not_called_off_where_only_new_replicas_are_in_sync_unless_records_may_be_lost(cluster):
    reassign(cluster, [3, 4])
    set_isr(cluster, 1, 2, 3)
    cluster.fence(1)
    cluster.fence(2)
    assert cluster.partition("t").isr == (3,)
    with pytest.raises(StreamlogError, match="unclean leader election"):
        reassign(cluster, None)
    cluster.beat(1)
    allow = [ConfigChange(name="unclean.leader.election.enable", value="true")]
    cluster.ask(lambda facts: plan_config_changes(facts, ConfigResource.TOPIC, "t", allow))
    assert reassign(cluster, None) == ((1, 2), (), ())
    state = cluster.partition("t")
    assert (state.isr, state.leader, state.leader_recovery_state) == ((1,), 1, 1)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"replicas": [1], "topic": "none"}, "unknown_topic_or_partition"),
        ({"replicas": [1], "number": 9}, "unknown_topic_or_partition"),
        ({"replicas": []}, "invalid_replica_assignment"),
        ({"replicas": [1, 1]}, "invalid_replica_assignment"),
        ({"replicas": [1, 9]}, "invalid_replica_assignment"),
        ({"replicas": [1], "may_change_factor": False}, "invalid_replication_factor"),
        ({"replicas": None}, "no_reassignment_in_progress"),
    ],
)
def test_what_cannot_be_reassigned_is_refused(cluster, fields, error):
    with pytest.raises(StreamlogError) as refused:
        reassign(cluster, **fields)
    assert refused.value.error_code.name == error
