"""AlterPartition: every check in Kafka's order, each case one proposal and its answer."""

from dataclasses import replace

import pytest
from support.controller.small_cluster import SmallCluster

from broker_core.controller.isr_changes import IsrProposal, plan_isr_change
from broker_core.metadata.metadata_records import PartitionChangeRecord


@pytest.fixture
def cluster():
    cluster = SmallCluster(1, 2, 3, 4)
    cluster.create("t", (1, 2, 3), min_insync_replicas="2")
    cluster.fence(3)
    cluster.fence(4)
    return cluster


def proposal(cluster, **fields):
    state = cluster.partition("t")
    isr = fields.pop("isr", (1, 2))
    start = IsrProposal(
        leader_id=state.leader,
        topic_id=cluster.image.topics["t"].topic_id,
        number=0,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=[member if isinstance(member, tuple) else (member, -1) for member in isr],
        recovery_state=0,
    )
    return replace(start, **fields)


def outcome(cluster, **fields):
    return plan_isr_change(cluster.facts, proposal(cluster, **fields))


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"topic_id": None}, "unknown_topic_id"),
        ({"number": 1}, "unknown_topic_or_partition"),
        ({"leader_epoch": 1}, "not_controller"),
        ({"partition_epoch": 2}, "not_controller"),
        ({"partition_epoch": 2, "leader_epoch": -1}, "not_controller"),
        ({"leader_epoch": -1, "leader_id": 2}, "fenced_leader_epoch"),
        ({"leader_id": 2, "partition_epoch": 0}, "invalid_request"),
        ({"partition_epoch": 0, "isr": (2,)}, "invalid_update_version"),
        ({"isr": (2,)}, "invalid_request"),
        ({"isr": ()}, "invalid_request"),
        ({"isr": (1, 1)}, "invalid_request"),
        ({"isr": (1, 4)}, "invalid_request"),
        ({"isr": (1,), "recovery_state": 1}, "invalid_request"),
        ({"isr": (1, 3)}, "ineligible_replica"),
        ({"isr": (1, (2, 99))}, "ineligible_replica"),
        ({"isr": (1, 2)}, "none"),
        ({"isr": (1,)}, "none"),
    ],
)
def test_a_proposal_is_refused_by_the_first_check_that_fails(cluster, fields, error):
    assert cluster.partition("t").isr == (1, 2)
    found = outcome(cluster, **fields)
    assert found.error.name == error
    assert (found.record is None) == (fields.get("isr") != (1,) or error != "none")


def test_the_answer_is_the_partition_as_it_is_then(cluster):
    found = outcome(cluster, isr=(1,))
    before = cluster.partition("t")
    assert (found.state.isr, found.state.partition_epoch) == ((1,), before.partition_epoch + 1)
    assert found.state.eligible_leader_replicas == (2,)
    cluster.append(found.record)
    assert cluster.partition("t") == found.state


def test_an_isr_as_it_is_is_no_change(cluster):
    assert outcome(cluster).record is None
    assert outcome(cluster).state == cluster.partition("t")


def test_a_fenced_member_joins_again_once_it_is_unfenced_in_the_epoch_that_was_named(cluster):
    cluster.beat(3)
    epoch = cluster.image.registrations.brokers[3].broker_epoch
    assert outcome(cluster, isr=(1, 2, (3, epoch))).error.name == "none"
    assert outcome(cluster, isr=(1, 2, (3, epoch - 1))).error.name == "ineligible_replica"


def test_a_broker_on_its_way_out_does_not_join(cluster):
    cluster.beat(3)
    cluster.create("led", (3,))
    cluster.beat(3, want_stop=True)
    assert outcome(cluster, isr=(1, 2, 3)).error.name == "ineligible_replica"


def test_a_change_that_ends_a_reassignment_may_move_the_leader(cluster):
    topic_id = cluster.image.topics["t"].topic_id
    cluster.beat(4)
    cluster.append(
        PartitionChangeRecord(
            topic_id=topic_id, partition_id=0, replicas=(2, 3, 4, 1), removing_replicas=(1,), adding_replicas=(4,),
            directories=tuple(cluster.facts.default_directory(broker_id) for broker_id in (2, 3, 4, 1)),
        )
    )  # fmt: skip
    found = outcome(cluster, isr=(1, 2, 4))
    assert found.error.name == "new_leader_elected"
    assert (found.record.leader, found.record.replicas, found.record.isr) == (2, (2, 3, 4), (2, 4))
