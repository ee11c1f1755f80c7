"""Coordinators that move between a broker of ours and a real node: each reads what the other wrote; `-m kafka`."""

import pytest
from confluent_kafka import KafkaError
from kafka import KafkaProducer
from support.brokers import kafka_tools
from support.clients.confluent_clients import (
    STARTING,
    a_consumer,
    a_producer,
    committed_in,
    committed_values,
    once_coordinated,
    send,
    take,
)
from support.cluster.mixed_cluster import INTERNAL, OURS, PLACES, MixedCluster

SECONDS = 90
MOVING = (*STARTING, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)
PATIENT = {"socket.timeout.ms": 4000, "log_level": 0}

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def _running(tmp_path_factory):
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    with MixedCluster(tmp_path_factory.mktemp("mixed")) as cluster:
        yield cluster


@pytest.fixture
def cluster(_running):
    _running.heal()
    return _running


def move_to(cluster, node_id, how):
    """What ours prefers to lead of both internal topics."""
    if node_id == 1:
        getattr(cluster.ours, how)()
        for name in INTERNAL:
            cluster.wait_led(name, *[1] * len(PLACES))
    else:
        cluster.heal()
    assert [cluster.leaders(name)[0] for name in INTERNAL] == [node_id, node_id]


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_keeps_its_offsets_and_goes_on(cluster, protocol, how):
    topic, group = cluster.make_topic([[1, OURS]]), cluster.name_coordinated_by(OURS)
    producer = a_producer(cluster, acks="all", **PATIENT)
    consumer = a_consumer(cluster, group, group__protocol=protocol, **PATIENT)
    consumer.subscribe([topic])
    sent = 0
    for node_id in (None, 1, OURS):
        if node_id is not None:
            move_to(cluster, node_id, how)
        assert sent == 0 or once_coordinated(lambda: committed_in(cluster, group, topic)) == (sent, None)
        send(producer, topic, [b"%d" % (sent + number) for number in range(20)])
        found = take(consumer, 20, SECONDS, MOVING)
        assert [int(message.value()) for message in found] == list(range(sent, sent + 20))
        sent += 20
        commit(consumer)
    consumer.close()


def commit(consumer):
    once_coordinated(lambda: consumer.commit(asynchronous=False))


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_transactions_go_on_and_what_is_open_is_ended_by_the_next_coordinator(cluster, how):
    topic = cluster.make_topic([[OURS, 1], [1, OURS]], min__insync__replicas=1)
    name = cluster.name_coordinated_by(OURS)
    producer = a_producer(cluster, transactional__id=name, **PATIENT)
    producer.init_transactions(SECONDS)
    committed = []
    for node_id in (1, OURS):
        for turn in range(3):
            values = [b"%d-%d-%d" % (node_id, turn, number) for number in range(6)]
            producer.begin_transaction()
            for number, value in enumerate(values):
                producer.produce(topic, value, partition=number % 2)
            if turn == 1:
                assert producer.flush(SECONDS) == 0
                move_to(cluster, node_id, how)
            if turn == 2:
                producer.abort_transaction(SECONDS)
            else:
                producer.commit_transaction(SECONDS)
                committed += values
    left_open = a_producer(cluster, transactional__id=name, **PATIENT)
    left_open.init_transactions(SECONDS)
    left_open.begin_transaction()
    send(left_open, topic, [b"left open"])
    move_to(cluster, 1, how)
    after = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=name)
    after.init_transactions()
    after.begin_transaction()
    after.send(topic, b"after")
    after.commit_transaction()
    after.close()
    cluster.heal()
    cluster.wait_in_sync(topic, {OURS, 1}, {OURS, 1})
    assert sorted(committed_values(cluster, topic)) == sorted([*committed, b"after"])
    for each in (topic, *INTERNAL):
        cluster.assert_replicas_are_equal(each)
