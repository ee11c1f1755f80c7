"""Groups and transactions go on when the node that coordinates them fails."""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException
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
from support.cluster.tested_cluster import wait_for

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
SECONDS = 60
# What a client tells of while the coordinator moves, and gets over by itself.
MOVING = (*STARTING, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)
PATIENT = {"socket.timeout.ms": 4000, "log_level": 0}


def commit(consumer):
    """Until the coordinator that the client finds takes it."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return consumer.commit(asynchronous=False)
        except KafkaException as error:
            assert error.args[0].retriable() or error.args[0].code() in MOVING, error
            assert time.monotonic() < deadline, error
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("protocol", "fault"),
    [
        ("classic", "killed"),
        ("consumer", "killed"),
        pytest.param("classic", "stopped", marks=pytest.mark.long),
        pytest.param("consumer", "paused", marks=pytest.mark.long),
    ],
)
def test_a_group_goes_on_at_another_coordinator_with_its_committed_offsets(cluster, protocol, fault):
    topic, group = cluster.make_topic(), cluster.name("g")
    producer = a_producer(cluster, acks="all", **PATIENT)
    send(producer, topic, [b"%d" % number for number in range(40)])
    consumer = a_consumer(cluster, group, group__protocol=protocol, **PATIENT)
    consumer.subscribe([topic])
    take(consumer, 30, SECONDS, MOVING)
    commit(consumer)
    first = cluster.leader_of(OFFSETS)
    cluster.hit(first, fault)
    assert cluster.leader_of(OFFSETS) != first
    assert once_coordinated(lambda: committed_in(cluster, group, topic)) == (30, None)
    send(producer, topic, [b"%d" % number for number in range(40, 60)])
    rest = take(consumer, 30, SECONDS, MOVING)
    assert {int(message.value()) for message in rest} == set(range(30, 60)), "a member keeps its place"
    commit(consumer)
    assert once_coordinated(lambda: committed_in(cluster, group, topic)) == (60, None)
    cluster.heal()
    consumer.close()


def ended(end):
    """Calls it until the coordinator has ended the transaction; False if it must be aborted instead."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            end(10)
            return True
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                return False
            assert error.args[0].retriable(), error
            assert time.monotonic() < deadline, error


@pytest.mark.parametrize(
    "fault", ["killed", pytest.param("paused", marks=pytest.mark.long), pytest.param("stopped", marks=pytest.mark.long)]
)
def test_of_transactions_whose_coordinator_fails_the_committed_ones_are_seen_whole_and_no_other(cluster, fault):
    topic = cluster.make_topic(partition_count=3)
    producer = a_producer(cluster, transactional__id=cluster.name("x"), transaction__timeout__ms=30_000, **PATIENT)
    producer.init_transactions(SECONDS)
    committed, aborted = [], []
    first = cluster.leader_of(TRANSACTIONS)
    for number in range(24):
        producer.begin_transaction()
        values = [b"%d-%d" % (number, each) for each in range(6)]
        for each, value in enumerate(values):
            producer.produce(topic, value, partition=each % 3)
        if number == 8:
            cluster.hit(first, fault)
        if number % 4 != 3 and ended(producer.commit_transaction):
            committed += values
        else:
            assert ended(producer.abort_transaction)
            aborted += values
    assert cluster.leader_of(TRANSACTIONS) != first
    assert len(aborted) >= 36
    cluster.heal()
    cluster.wait_in_sync(topic, partition_count=3)
    assert sorted(committed_values(cluster, topic)) == sorted(committed)
    cluster.assert_replicas_are_equal(topic, partition_count=3)


@pytest.mark.long
def test_a_transaction_of_a_producer_that_is_gone_is_aborted_by_the_next_coordinator(cluster):
    topic = cluster.make_topic()
    producer = a_producer(cluster, transactional__id=cluster.name("x"), transaction__timeout__ms=5000, **PATIENT)
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    send(producer, topic, [b"left open"])
    first = cluster.leader_of(TRANSACTIONS)
    cluster.hit(first, "killed")
    assert cluster.leader_of(TRANSACTIONS) != first
    send(a_producer(cluster, acks="all"), topic, [b"behind"])
    wait_for(lambda: committed_values(cluster, topic) == [b"behind"])
    cluster.heal()
