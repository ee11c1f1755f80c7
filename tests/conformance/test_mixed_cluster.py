"""A broker of ours among real Kafka nodes: it leads, follows and coordinates as they do; `pytest -m kafka`."""

import pytest
from support.brokers import kafka_tools
from support.clients.confluent_clients import (
    a_consumer,
    a_producer,
    committed_in,
    committed_values,
    once_coordinated,
    send,
    take,
    values_of,
)
from support.clients.kafka_python_clients import values_of as kafka_python_values_of
from support.cluster.cluster_writer import ClusterWriter
from support.cluster.mixed_cluster import INTERNAL, OURS, MixedCluster

SECONDS = 60
PATIENT = {"socket.timeout.ms": 4000, "log_level": 0}
SAFE = {"min__insync__replicas": 2}

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


def test_what_either_leads_the_other_has_byte_for_byte(cluster):
    topic = cluster.make_topic([[OURS, 1], [1, OURS]], **SAFE)
    values = [b"%d" % number * (1 + number % 40) for number in range(2000)]
    for place, compression in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = a_producer(cluster, acks="all", enable__idempotence=True, compression__type=compression)
        some = values[400 * place : 400 * (place + 1)]
        send(producer, topic, [{"value": value, "partition": number % 2} for number, value in enumerate(some)])
    assert cluster.leaders(topic) == [OURS, 1]
    assert sorted(values_of(cluster, topic)) == sorted(kafka_python_values_of(cluster, topic)) == sorted(values)
    cluster.assert_replicas_are_equal(topic)
    assert cluster.errors() == []


@pytest.mark.parametrize("coordinator", [OURS, 1])
def test_transactions_and_groups_over_partitions_of_both_whoever_coordinates_them(cluster, coordinator):
    topic = cluster.make_topic([[OURS, 1], [1, OURS]], **SAFE)
    group, transactional_id = (cluster.name_coordinated_by(coordinator) for _ in range(2))
    producer = a_producer(cluster, transactional__id=transactional_id, **PATIENT)
    producer.init_transactions(SECONDS)
    consumer = a_consumer(cluster, group, isolation__level="read_committed", **PATIENT)
    consumer.subscribe([topic])
    committed = []
    for turn in range(6):
        producer.begin_transaction()
        values = [b"%d-%d" % (turn, number) for number in range(10)]
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % 2)
        if turn % 2:
            producer.abort_transaction(SECONDS)
        else:
            positions = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), SECONDS)
            producer.commit_transaction(SECONDS)
            committed += values
            take(consumer, 10, SECONDS)
    assert cluster.coordinators(group, transactional_id) == (coordinator, coordinator)
    assert sorted(committed_values(cluster, topic)) == sorted(committed)
    assert once_coordinated(lambda: committed_in(cluster, group, topic))[0] > 0
    consumer.commit(asynchronous=False)
    consumer.close()
    for name in (topic, *INTERNAL):
        cluster.assert_replicas_are_equal(name)
    assert cluster.errors() == []


def test_nothing_acknowledged_is_lost_when_ours_is_killed_as_a_leader_and_comes_back(cluster):
    topic = cluster.make_topic([[OURS, 1], [1, OURS]], min__insync__replicas=1)
    with ClusterWriter(cluster, topic, partition_count=2) as writer:
        writer.wait_for_more()
        cluster.ours.kill()
        writer.wait_for_more()
        assert (cluster.leaders(topic), cluster.in_sync(topic)) == ([1, 1], [{1}, {1}])
        cluster.ours.start()
        cluster.wait_in_sync(topic, {1, OURS}, {1, OURS})
        cluster.elect_preferred(topic)
        cluster.wait_led(topic, OURS, 1)
        writer.wait_for_more()
    cluster.assert_once_and_in_order(topic, writer)
    assert cluster.errors() == []


def test_nothing_acknowledged_is_lost_when_the_real_node_is_killed_and_comes_back(cluster):
    """It is the only controller, too: ours serves on what it leads."""
    topic = cluster.make_topic([[OURS, 1], [1, OURS]], min__insync__replicas=1)
    with ClusterWriter(cluster, topic, partition_count=2) as writer:
        writer.wait_for_more()
        cluster.real.kill(1)
        cluster.real.start(1)
        cluster.wait_in_sync(topic, {1, OURS}, {1, OURS})
        writer.wait_for_more()
    cluster.assert_once_and_in_order(topic, writer)


def test_the_lead_moves_both_ways_by_election_and_by_reassignment_under_load(cluster):
    topic = cluster.make_topic([[OURS, 1], [1, OURS]], min__insync__replicas=1)
    with ClusterWriter(cluster, topic, partition_count=2) as writer:
        writer.wait_for_more()
        cluster.reassign(topic, [[1, OURS], [OURS, 1]])
        cluster.elect_preferred(topic)
        cluster.wait_led(topic, 1, OURS)
        writer.wait_for_more()
        cluster.reassign(topic, [[OURS], [1]])
        assert cluster.leaders(topic) == [OURS, 1]
        writer.wait_for_more()
        cluster.reassign(topic, [[1], [OURS]])
        assert cluster.leaders(topic) == [1, OURS]
        writer.wait_for_more()
        cluster.reassign(topic, [[1, OURS], [OURS, 1]])
    cluster.assert_once_and_in_order(topic, writer)


def test_ours_stops_in_order_and_hands_its_leaders_over(cluster):
    topic = cluster.make_topic([[OURS, 1]], min__insync__replicas=1)
    send(a_producer(cluster, acks="all"), topic, [b"before"])
    cluster.ours.stop()
    assert (cluster.leaders(topic), cluster.in_sync(topic)) == ([1], [{1}])
    send(a_producer(cluster, acks="all"), topic, [b"after"])
    cluster.heal()
    cluster.wait_in_sync(topic, {1, OURS})
    cluster.assert_replicas_are_equal(topic)
