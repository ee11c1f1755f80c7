"""What an active controller makes of hints that a broker's process is gone, right or wrong."""

import pytest
from kio.schema.errors import ErrorCode
from support.controller.small_cluster import SmallCluster

from broker_core.model.exceptions import StreamlogError


@pytest.fixture
def cluster():
    cluster = SmallCluster(1, 2, 3)
    cluster.create("t", (2, 1, 3))
    return cluster


def epoch_of(cluster, broker_id):
    return cluster.image.registrations.brokers[broker_id].broker_epoch


def gone(cluster, broker_id, *, epoch=None):
    epoch = epoch_of(cluster, broker_id) if epoch is None else epoch
    cluster.carry_out(cluster.controller.on_broker_gone(broker_id, epoch, cluster.now_ms))


def is_fenced(cluster, broker_id):
    return cluster.image.registrations.brokers[broker_id].fenced


def test_a_broker_that_is_gone_is_fenced_at_once_and_leads_nothing(cluster):
    gone(cluster, 2)
    assert is_fenced(cluster, 2)
    partition = cluster.partition("t")
    assert partition.leader == 1
    assert 2 not in partition.isr


def test_a_wrong_hint_costs_the_time_until_its_next_heartbeat(cluster):
    gone(cluster, 2)
    cluster.beat(2)
    assert not is_fenced(cluster, 2)


def test_a_hint_of_an_earlier_incarnation_does_nothing(cluster):
    gone(cluster, 2, epoch=epoch_of(cluster, 2) - 1)
    gone(cluster, 9, epoch=5)
    assert not is_fenced(cluster, 2)


def test_a_hint_of_a_fenced_broker_writes_nothing(cluster):
    cluster.fence(2)
    written = len(cluster.log)
    gone(cluster, 2)
    assert len(cluster.log) == written


def test_a_restarted_broker_takes_its_id_at_once_when_the_old_connection_is_gone(cluster):
    with pytest.raises(StreamlogError) as refused:
        cluster.register(2, incarnation=77)
    assert refused.value.error_code is ErrorCode.duplicate_broker_registration
    cluster.controller.on_broker_disconnected(2, epoch_of(cluster, 2))
    before = epoch_of(cluster, 2)
    cluster.register(2, incarnation=77)
    assert epoch_of(cluster, 2) > before


def test_a_broker_that_connects_again_keeps_its_id(cluster):
    cluster.controller.on_broker_disconnected(2, epoch_of(cluster, 2))
    cluster.beat(2)
    with pytest.raises(StreamlogError):
        cluster.register(2, incarnation=77)


def test_a_broker_without_a_connection_keeps_what_it_leads_until_its_session_is_over(cluster):
    cluster.controller.on_broker_disconnected(2, epoch_of(cluster, 2))
    assert cluster.partition("t").leader == 2
    assert not is_fenced(cluster, 2)
