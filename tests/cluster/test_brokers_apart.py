"""Brokers without a vote lead, follow and coordinate, with their controller in a process of its own."""

import pytest
from confluent_kafka import KafkaError
from support.clients.confluent_clients import (
    STARTING,
    a_consumer,
    a_producer,
    committed_in,
    committed_values,
    once_coordinated,
    send,
    take,
    values_of,
)
from support.cluster.brokers_apart import BrokersApart
from support.cluster.cluster_writer import ClusterWriter
from support.cluster.tested_cluster import wait_for

PARTITIONS, SECONDS = 3, 60
MOVING = (*STARTING, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)
PATIENT = {"socket.timeout.ms": 4000, "log_level": 0}


@pytest.fixture(scope="module")
def _running(tmp_path_factory):
    with BrokersApart(tmp_path_factory.mktemp("apart")) as cluster:
        yield cluster


@pytest.fixture
def cluster(_running):
    _running.heal()
    return _running


def test_what_is_acknowledged_while_a_leader_is_killed_is_there_once_in_order_and_equal_everywhere(cluster):
    topic = cluster.make_topic(partition_count=PARTITIONS)
    victim = cluster.leader_of(topic)
    with ClusterWriter(cluster, topic, partition_count=PARTITIONS) as writer:
        writer.wait_for_more()
        cluster.hit(victim, "killed")
        writer.wait_for_more()
        assert victim not in {cluster.leader_of(topic, number) for number in range(PARTITIONS)}
        cluster.heal()
        cluster.wait_in_sync(topic, cluster.ids, partition_count=PARTITIONS)
        writer.wait_for_more()
    cluster.assert_once_and_in_order(topic, writer, partition_count=PARTITIONS)


@pytest.mark.long
def test_a_broker_that_stops_in_order_hands_its_leaders_over_and_takes_part_again(cluster):
    topic = cluster.make_topic(replicas=[101, 102, 103])
    send(a_producer(cluster, acks="all"), topic, [b"before"])
    cluster.node(101).stop()
    assert cluster.leader_of(topic) != 101
    send(a_producer(cluster, acks="all"), topic, [b"meanwhile"])
    cluster.heal()
    cluster.assert_replicas_are_equal(topic)
    assert values_of(cluster, topic) == [b"before", b"meanwhile"]


def test_a_group_and_a_transaction_go_on_when_the_broker_that_coordinates_both_is_killed(cluster):
    topic, group = cluster.make_topic(partition_count=3), cluster.name("g")
    producer = a_producer(cluster, transactional__id=cluster.name("x"), **PATIENT)
    producer.init_transactions(SECONDS)
    consumer = a_consumer(cluster, group, **PATIENT)
    consumer.subscribe([topic])
    send_in_transaction(producer, consumer, topic, [b"1", b"2", b"3"])
    take(consumer, 3, SECONDS, MOVING)
    send_in_transaction(producer, consumer, topic, [b"4"])
    coordinators = {cluster.leader_of("__consumer_offsets"), cluster.leader_of("__transaction_state")}
    assert coordinators <= cluster.ids
    cluster.hit(cluster.leader_of("__transaction_state"), "killed")
    send_in_transaction(producer, consumer, topic, [b"5"], commit=False)
    send_in_transaction(producer, consumer, topic, [b"6"])
    take(consumer, 2, SECONDS, MOVING)
    assert once_coordinated(lambda: sum(committed_in(cluster, group, topic, number)[0] for number in range(3))) > 0
    cluster.heal()
    assert sorted(committed_values(cluster, topic)) == [b"1", b"2", b"3", b"4", b"6"]
    cluster.assert_replicas_are_equal(topic, partition_count=3)
    consumer.close()


def send_in_transaction(producer, consumer, topic, values, *, commit=True):
    """The consumer's position is part of the transaction."""
    producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 3)
    positions = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
    if positions:
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), SECONDS)
    (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)


def test_brokers_serve_on_while_their_only_controller_is_away_and_find_it_again(cluster):
    topic = cluster.make_topic()
    cluster.controllers.kill(1)
    send(a_producer(cluster, acks="all"), topic, [b"without"])
    cluster.controllers.start(1)
    later = cluster.make_topic()
    send(a_producer(cluster, acks="all"), later, [b"with"])
    assert values_of(cluster, topic) + values_of(cluster, later) == [b"without", b"with"]
    wait_for(lambda: len(cluster.admin().list_topics(timeout=10).brokers) == 3)
