"""Groups and transactions go on when the node that coordinates them fails."""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
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

from broker_core.coordinator.key_partition import key_partition

INTERNAL = OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
PARTITION_COUNT = 50
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
    place = key_partition(group, PARTITION_COUNT)
    first = cluster.leader_of(OFFSETS, place)
    cluster.hit(first, fault)
    assert cluster.leader_of(OFFSETS, place) != first
    assert once_coordinated(lambda: committed_in(cluster, group, topic)) == (30, None)
    send(producer, topic, [b"%d" % number for number in range(40, 60)])
    rest = take(consumer, 30, SECONDS, MOVING)
    assert {int(message.value()) for message in rest} == set(range(30, 60)), "a member keeps its place"
    commit(consumer)
    assert once_coordinated(lambda: committed_in(cluster, group, topic)) == (60, None)
    cluster.heal()
    consumer.close()


def commit_at(cluster, group, topic, offset):
    """At the coordinator that the client finds now, without members."""
    consumer = a_consumer(cluster, group, **PATIENT)
    try:
        (done,) = consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        assert done.error is None, done
    finally:
        consumer.close()


def transact(producer, topic, value, *, reader):
    """One record, and an offset of the reader's group, in a transaction.

    A producer of librdkafka that has asked for the group's coordinator must not do so again once that node has left the
    metadata: it waits for it beyond any timeout (its issues 5511 and 5456).
    """
    producer.begin_transaction()
    producer.produce(topic, value.encode(), partition=0)
    offsets, group = [TopicPartition(topic, 0, 1)], reader.consumer_group_metadata()
    assert ended(lambda seconds: producer.send_offsets_to_transaction(offsets, group, seconds))
    assert ended(producer.commit_transaction)


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
    name = cluster.name("x")
    place = key_partition(name, PARTITION_COUNT)
    producer = a_producer(cluster, transactional__id=name, transaction__timeout__ms=30_000, **PATIENT)
    producer.init_transactions(SECONDS)
    committed, aborted = [], []
    first = cluster.leader_of(TRANSACTIONS, place)
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
    assert cluster.leader_of(TRANSACTIONS, place) != first
    assert len(aborted) >= 36
    cluster.heal()
    cluster.wait_in_sync(topic, partition_count=3)
    assert sorted(committed_values(cluster, topic)) == sorted(committed)
    cluster.assert_replicas_are_equal(topic, partition_count=3)


@pytest.mark.long
def test_a_transaction_of_a_producer_that_is_gone_is_aborted_by_the_next_coordinator(cluster):
    topic = cluster.make_topic()
    name = cluster.name("x")
    place = key_partition(name, PARTITION_COUNT)
    producer = a_producer(cluster, transactional__id=name, transaction__timeout__ms=5000, **PATIENT)
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    send(producer, topic, [b"left open"])
    first = cluster.leader_of(TRANSACTIONS, place)
    cluster.hit(first, "killed")
    assert cluster.leader_of(TRANSACTIONS, place) != first
    send(a_producer(cluster, acks="all"), topic, [b"behind"])
    wait_for(lambda: committed_values(cluster, topic) == [b"behind"])
    cluster.heal()


def test_when_a_node_dies_the_groups_and_transactions_of_all_partitions_go_on(cluster):
    """A third of the coordinators moves, and the others do not notice."""
    topic = cluster.make_topic()
    send(a_producer(cluster, acks="all"), topic, [b"0", b"1", b"2"])
    groups, ids = [cluster.name("g") for _ in range(12)], [cluster.name("x") for _ in range(6)]
    producers = {each: a_producer(cluster, transactional__id=each, **PATIENT) for each in ids}
    for producer in producers.values():
        producer.init_transactions(SECONDS)
    for group in groups:
        once_coordinated(lambda group=group: commit_at(cluster, group, topic, 1))
    led = {name: [cluster.leader_of(name, number) for number in range(PARTITION_COUNT)] for name in INTERNAL}
    assert all(len(set(led[name])) > 1 for name in INTERNAL)
    homes = {led[OFFSETS][key_partition(group, PARTITION_COUNT)] for group in groups}
    homes |= {led[TRANSACTIONS][key_partition(each, PARTITION_COUNT)] for each in ids}
    victim = led[OFFSETS][key_partition(groups[0], PARTITION_COUNT)]
    assert len(homes) > 1
    staying = next(group for group in groups if led[OFFSETS][key_partition(group, PARTITION_COUNT)] != victim)
    reader = a_consumer(cluster, staying, **PATIENT)
    for each, producer in producers.items():
        transact(producer, topic, each, reader=reader)
    cluster.hit(victim, "killed")
    for group in groups:
        assert once_coordinated(lambda group=group: committed_in(cluster, group, topic)) == (1, None)
        once_coordinated(lambda group=group: commit_at(cluster, group, topic, 2))
        assert once_coordinated(lambda group=group: committed_in(cluster, group, topic)) == (2, None)
    for each, producer in producers.items():
        transact(producer, topic, each, reader=reader)
    newcomer = a_producer(cluster, transactional__id=cluster.name("x"), **PATIENT)
    newcomer.init_transactions(SECONDS)
    transact(newcomer, topic, "new", reader=a_consumer(cluster, groups[0], **PATIENT))
    for name in INTERNAL:
        now = [cluster.leader_of(name, number) for number in range(PARTITION_COUNT)]
        moved = [number for number in range(PARTITION_COUNT) if now[number] != led[name][number]]
        assert moved == [number for number in range(PARTITION_COUNT) if led[name][number] == victim]
    cluster.heal()
    values = committed_values(cluster, topic)
    assert sorted(values) == sorted([b"0", b"1", b"2", b"new", *(each.encode() for each in ids for _ in range(2))])
    admin = cluster.admin()

    def missing():
        listed = admin.list_consumer_groups().result(SECONDS)
        return set(groups) - {each.group_id for each in listed.valid}, listed.errors

    wait_for(lambda: missing() == (set(), []), told=missing)
