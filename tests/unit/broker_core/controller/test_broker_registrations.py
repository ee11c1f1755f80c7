"""Brokers come, run, fall silent, stop and come back: what the controller writes and answers."""

from uuid import UUID

import pytest
from support.controller.small_cluster import FEATURES, SmallCluster, directory

from broker_core.controller.broker_life import BrokerState, state_of
from broker_core.controller.broker_registrations import check_broker_epoch, plan_unregistration
from broker_core.metadata.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from broker_core.model.exceptions import RequestRefusedError


def kinds(records):
    return [type(record).__name__.removesuffix("Record") for record in records]


def state(cluster, broker_id):
    return state_of(cluster.image.registrations.brokers[broker_id])


def refusal(call, *arguments, **fields):
    with pytest.raises(RequestRefusedError) as refused:
        call(*arguments, **fields)
    return refused.value.error_code.name


# Registration


def test_the_broker_epoch_is_the_offset_at_which_the_records_of_the_registration_begin():
    cluster = SmallCluster()
    first = len(cluster.log)
    assert cluster.register(1) == first
    assert isinstance(cluster.log[first], RegisterBrokerRecord)
    assert cluster.image.registrations.brokers[1].broker_epoch == first
    assert state(cluster, 1) is BrokerState.FENCED


def test_the_same_incarnation_keeps_its_epoch_and_its_state():
    cluster = SmallCluster(1)
    epoch = cluster.image.registrations.brokers[1].broker_epoch
    assert cluster.register(1, rack="r") == epoch
    assert state(cluster, 1) is BrokerState.UNFENCED
    assert cluster.image.registrations.brokers[1].rack == "r"


def test_another_incarnation_is_refused_while_the_session_lives_and_taken_when_it_is_over():
    cluster = SmallCluster()
    first = cluster.register(1)
    second = cluster.register(1, incarnation=1)
    assert second > first  # no heartbeat yet: no session
    cluster.beat(1)
    assert refusal(cluster.register, 1, incarnation=2) == "duplicate_broker_registration"
    cluster.now_ms += 8_999
    assert refusal(cluster.register, 1, incarnation=2) == "duplicate_broker_registration"
    cluster.now_ms += 1
    assert cluster.register(1, incarnation=2) > second


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"cluster_id": "another"}, "inconsistent_cluster_id"),
        ({"log_dirs": ()}, "invalid_registration"),
        ({"log_dirs": (UUID(int=1),)}, "invalid_registration"),
        ({"log_dirs": (directory(9), directory(9))}, "invalid_registration"),
        ({"log_dirs": (directory(1),)}, "invalid_registration"),
        ({"features": FEATURES[1:]}, "invalid_registration"),
        ({"features": FEATURES[:-1]}, "unsupported_version"),
        ({"features": ()}, "invalid_registration"),
    ],
)
def test_a_registration_that_does_not_fit_the_cluster_is_refused(fields, error):
    cluster = SmallCluster(1)
    before = list(cluster.log)
    assert refusal(cluster.register, 2, **fields) == error
    assert cluster.log == before


def test_a_new_incarnation_leaves_every_isr_first():
    cluster = SmallCluster(1, 2)
    cluster.create("t", (1, 2))
    cluster.now_ms += 9_000
    first = len(cluster.log)
    epoch = cluster.register(1, incarnation=1)
    assert kinds(cluster.log[first:]) == ["PartitionChange", "RegisterBroker"]
    assert epoch == first
    assert (cluster.partition("t").isr, cluster.partition("t").leader) == ((2,), 2)


@pytest.mark.parametrize(
    ("previous_epoch", "stays_eligible"), [(None, True), ("its own", True), (-1, False), (3, False)]
)
def test_only_who_was_shut_down_cleanly_stays_eligible(previous_epoch, stays_eligible):
    cluster = SmallCluster(1, 2)
    cluster.create("t", (1, 2), min_insync_replicas="2")
    cluster.fence(1)
    assert cluster.partition("t").eligible_leader_replicas == (1,)
    cluster.now_ms += 9_000
    own = cluster.image.registrations.brokers[1].broker_epoch
    cluster.register(1, incarnation=1, previous_epoch=own if previous_epoch == "its own" else previous_epoch)
    assert cluster.partition("t").eligible_leader_replicas == ((1,) if stays_eligible else ())


def test_the_last_member_of_an_isr_that_lost_its_page_cache_does_not_lead_as_if_nothing_had_happened():
    cluster = SmallCluster(1, 2)
    cluster.create("t", (1, 2), min_insync_replicas="2")
    cluster.fence(2)
    cluster.now_ms += 9_000
    cluster.register(1, incarnation=1, previous_epoch=-1)
    cluster.beat(1)
    assert cluster.partition("t").leader == -1
    cluster.beat(2)
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))


# Heartbeats


def test_a_broker_is_unfenced_when_it_knows_its_own_registration_and_not_before():
    cluster = SmallCluster(2)
    cluster.create("t", (2,))
    cluster.register(1)
    cluster.now_ms += 9_000
    cluster.register(2, incarnation=1)
    record = len(cluster.log) - 1
    assert cluster.image.registrations.brokers[2].broker_epoch == record - 1
    behind = cluster.beat(2, offset=record - 1)
    assert (behind.is_caught_up, behind.state) == (False, BrokerState.FENCED)
    there = cluster.beat(2, offset=record)
    assert (there.is_caught_up, there.state) == (True, BrokerState.UNFENCED)


def test_a_heartbeat_of_an_older_epoch_or_of_nobody_is_refused():
    cluster = SmallCluster(1)
    assert refusal(cluster.beat, 1, epoch=0) == "stale_broker_epoch"
    cluster.ask(lambda facts: plan_unregistration(facts, 1))
    assert refusal(cluster.ask, lambda facts: check_broker_epoch(facts, 1, 0)) == "broker_id_not_registered"


def test_unfencing_gives_a_leader_to_every_partition_that_has_none():
    cluster = SmallCluster(1, 2)
    cluster.create("one", (1,))
    cluster.create("two", (2, 1))
    cluster.fence(2)
    cluster.fence(1)
    assert (cluster.partition("one").leader, cluster.partition("two").leader) == (-1, -1)
    cluster.beat(1)
    assert (cluster.partition("one").leader, cluster.partition("two").leader) == (1, 1)


def test_a_silent_broker_is_fenced_when_its_session_is_over_with_the_fence_as_the_last_record():
    cluster = SmallCluster(1, 2)
    cluster.create("t", (1, 2), (2, 1))
    cluster.pass_time(5_000)
    cluster.beat(2)
    first = len(cluster.log)
    cluster.pass_time(3_999)
    assert state(cluster, 1) is BrokerState.UNFENCED
    cluster.pass_time(1)
    records = [record for record in cluster.log[first:] if "NoOp" not in type(record).__name__]
    assert kinds(records) == ["PartitionChange", "PartitionChange", "BrokerRegistrationChange"]
    assert (state(cluster, 1), state(cluster, 2)) == (BrokerState.FENCED, BrokerState.UNFENCED)
    assert (cluster.partition("t").leader, cluster.partition("t", 1).isr) == (2, (2,))
    first = len(cluster.log)
    cluster.pass_time(5_000)  # broker 2 follows, 1 is not fenced a second time
    fences = [each for each in cluster.log[first:] if isinstance(each, BrokerRegistrationChangeRecord)]
    assert [each.broker_id for each in fences] == [2]


def test_a_broker_that_stops_moves_what_it_leads_and_goes_when_all_others_know():
    cluster = SmallCluster(1, 2, 3)
    cluster.create("t", (1, 2))
    for broker_id in (2, 3):
        cluster.beat(broker_id)
    known = len(cluster.log) - 1
    assert cluster.beat(1, want_stop=True).state is BrokerState.CONTROLLED_SHUTDOWN
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))
    assert cluster.beat(1, want_stop=True).state is BrokerState.CONTROLLED_SHUTDOWN
    cluster.beat(2)
    cluster.beat(3, offset=known)
    assert cluster.beat(1, want_stop=True).state is BrokerState.CONTROLLED_SHUTDOWN
    cluster.beat(3)
    assert cluster.beat(1, want_stop=True).state is BrokerState.SHUTDOWN_NOW
    assert state(cluster, 1) is BrokerState.FENCED


def test_the_only_replica_keeps_leading_while_its_broker_stops_without_eligible_leaders():
    cluster = SmallCluster(1, 2)
    cluster.create("t", (1, 2))
    cluster.fence(2)
    assert cluster.beat(1, want_stop=True).state is BrokerState.CONTROLLED_SHUTDOWN
    assert (cluster.partition("t").leader, cluster.partition("t").eligible_leader_replicas) == (-1, (1,))
    assert cluster.beat(1, want_stop=True).state is BrokerState.SHUTDOWN_NOW


def test_a_broker_that_leads_nothing_stops_at_once():
    cluster = SmallCluster(1, 2)
    assert cluster.beat(1, want_stop=True).state is BrokerState.SHUTDOWN_NOW


def test_a_lost_directory_takes_its_replicas_out_of_the_isr():
    cluster = SmallCluster()
    cluster.start(1, log_dirs=(directory(1), directory(11)))
    cluster.start(2)
    cluster.create("t", (1, 2))
    topic_id = cluster.image.topics["t"].topic_id
    cluster.append(PartitionChangeRecord(topic_id=topic_id, partition_id=0, directories=(directory(11), directory(2))))
    cluster.beat(1, offline_log_dirs=(directory(1),))
    assert cluster.partition("t").isr == (1, 2)
    cluster.beat(1, offline_log_dirs=(directory(11),))
    assert (cluster.partition("t").isr, cluster.partition("t").leader) == ((2,), 2)


def test_an_unregistered_broker_is_gone_from_the_isr_and_the_image():
    cluster = SmallCluster(1, 2)
    cluster.create("t", (1, 2))
    cluster.ask(lambda facts: plan_unregistration(facts, 1))
    assert isinstance(cluster.log[-1], UnregisterBrokerRecord)
    assert (cluster.partition("t").leader, list(cluster.image.registrations.brokers)) == (2, [2])
    assert refusal(cluster.ask, lambda facts: plan_unregistration(facts, 1)) == "broker_id_not_registered"
