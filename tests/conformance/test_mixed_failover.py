"""A broker of ours that leads real followers, of which some fail, the active controller too; `pytest -m kafka`."""

import pytest
from support.brokers import kafka_tools
from support.clients.confluent_clients import a_producer, send, values_of
from support.cluster.cluster_writer import ClusterWriter
from support.cluster.mixed_cluster import OURS, MixedCluster
from support.quorum.our_broker import wait_until

from broker_core.client.quorum_description import describe_quorum
from broker_core.model.client_settings import parse_client_settings

LONG_SESSION = "broker.session.timeout.ms=24000"
"""Who is gone is missed by its leader long before the controller fences it."""
SHORT_LAG = "replica.lag.time.max.ms=6000"

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def _running(tmp_path_factory):
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("mixed")
    with MixedCluster(folder, real_count=3, real_settings=[LONG_SESSION], our_settings=[SHORT_LAG]) as cluster:
        yield cluster


@pytest.fixture
def cluster(_running):
    _running.heal()
    return _running


def active_controller(cluster):
    running = ",".join(f"127.0.0.1:{cluster.real.ports[each]['CONTROLLER']}" for each in cluster.real.running_ids)
    return describe_quorum(parse_client_settings({"bootstrap.servers": running})).leader_id


def live_brokers(cluster):
    return set(cluster.admin().list_topics(timeout=30).brokers)


def test_it_removes_a_real_follower_that_is_gone_and_takes_it_back(cluster):
    victim = next(each for each in (1, 2, 3) if each != active_controller(cluster))
    other = next(each for each in (1, 2, 3) if each != victim)
    topic = cluster.make_topic([[OURS, victim, other]], min__insync__replicas=2)
    with ClusterWriter(cluster, topic) as writer:
        writer.wait_for_more()
        cluster.real.kill(victim)
        wait_until(lambda: cluster.in_sync(topic) == [{OURS, other}], story=cluster.story)
        assert victim in live_brokers(cluster), "the controller has fenced it, and may have removed it"
        writer.wait_for_more()
        cluster.real.start(victim)
        cluster.wait_in_sync(topic, {OURS, victim, other})
        writer.wait_for_more()
    cluster.assert_once_and_in_order(topic, writer)


def test_it_leads_on_and_is_heard_when_the_active_controller_is_killed(cluster):
    victim = active_controller(cluster)
    others = [each for each in (1, 2, 3) if each != victim]
    topic = cluster.make_topic([[OURS, victim, *others]], min__insync__replicas=2)
    with ClusterWriter(cluster, topic) as writer:
        writer.wait_for_more()
        cluster.real.kill(victim)
        wait_until(lambda: cluster.in_sync(topic) == [{OURS, *others}], story=cluster.story)
        assert active_controller(cluster) in others
        writer.wait_for_more()
        later = cluster.make_topic([[others[0], OURS]])
        send(a_producer(cluster, acks="all"), later, [b"new"])
        assert values_of(cluster, later) == [b"new"]
        cluster.real.start(victim)
        cluster.wait_in_sync(topic, {OURS, victim, *others})
    cluster.assert_once_and_in_order(topic, writer)


def test_what_ours_wrote_alone_is_cut_when_a_real_replica_has_led_meanwhile(cluster):
    """It is killed with a record that its follower, which is frozen, does not have, and comes back as a follower."""
    follower = next(each for each in (1, 2, 3) if each != active_controller(cluster))
    topic = cluster.make_topic([[OURS, follower]], min__insync__replicas=1)
    producer = a_producer(cluster, acks="1")
    send(producer, topic, [b"both"])
    wait_until(lambda: cluster.log_at(follower, topic, 0) == cluster.ours.log_of(topic, 0))
    cluster.real.freeze(follower)
    send(producer, topic, [b"ours alone"])
    cluster.ours.kill()
    cluster.real.thaw(follower)
    assert b"ours alone" in cluster.ours.log_of(topic, 0)
    cluster.wait_led(topic, follower)
    assert b"ours alone" not in cluster.log_at(follower, topic, 0)
    send(a_producer(cluster, acks="all"), topic, [b"theirs"])
    cluster.ours.start()
    cluster.wait_in_sync(topic, {OURS, follower})
    assert values_of(cluster, topic) == [b"both", b"theirs"]
    cluster.assert_replicas_are_equal(topic)
