"""Consumers of librdkafka read from the replica in their rack (KIP-392), also when it fails; `pytest -m long`."""

import json
import time

import pytest
from confluent_kafka import TopicPartition
from support.clients.confluent_clients import a_consumer, a_producer, send
from support.cluster.tested_cluster import TestedCluster

RACKS = {1: "a", 2: "b", 3: "c"}
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
SECONDS = 30

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    nodes = TestedCluster(tmp_path_factory.mktemp("racks") / "nodes", settings={"replica.selector.class": SELECTOR})
    for node in nodes.nodes:
        with node.place.properties_path.open("a") as file:
            file.write(f"broker.rack={RACKS[node.node_id]}\n")
    with nodes:
        yield nodes


class NearConsumer:
    """Of one partition, from its beginning. `broker_id` is the one that it fetches from, as its statistics say."""

    def __init__(self, cluster, topic, rack, **given):
        self.topic, self.broker_id, self.values = topic, None, []
        self._consumer = a_consumer(
            cluster, client__rack=rack, statistics__interval__ms=50, stats_cb=self._on_statistics, log_level=0,
            topic__metadata__refresh__interval__ms=1_000, **given,
        )  # fmt: skip
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def _on_statistics(self, text):
        topic = json.loads(text)["topics"].get(self.topic)
        if topic is not None and "0" in topic["partitions"]:
            self.broker_id = topic["partitions"]["0"]["broker"]

    def poll_until(self, condition):
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, (self.broker_id, len(self.values))
            message = self._consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.values.append(message.value())

    def close(self):
        self._consumer.close()


def values_of(start, stop):
    return [b"%d" % number for number in range(start, stop)]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_consumer_reads_from_the_replica_in_its_rack_as_records_come(cluster, isolation):
    topic = cluster.make_topic(replicas=(1, 2, 3))
    producer = a_producer(cluster, acks="all")
    send(producer, topic, values_of(0, 100))
    consumer = NearConsumer(cluster, topic, "b", isolation__level=isolation)
    consumer.poll_until(lambda: len(consumer.values) == 100 and consumer.broker_id == 2)
    late = []
    for number in range(100, 120):
        send(producer, topic, values_of(number, number + 1))
        begun = time.monotonic()
        consumer.poll_until(lambda number=number: len(consumer.values) == number + 1)
        late.append(time.monotonic() - begun)
    assert consumer.broker_id == 2
    assert consumer.values == values_of(0, 120)
    print(f"from the ack to the consumer at a follower: median {sorted(late)[10] * 1000:.1f} ms")
    consumer.close()


def test_a_consumer_of_the_leader_s_rack_or_of_another_one_stays_at_the_leader(cluster):
    topic = cluster.make_topic(replicas=(1, 2, 3))
    send(a_producer(cluster, acks="all"), topic, values_of(0, 50))
    for rack in ("a", "nowhere"):
        consumer = NearConsumer(cluster, topic, rack)
        consumer.poll_until(lambda consumer=consumer: len(consumer.values) == 50 and consumer.broker_id == 1)
        consumer.close()


def test_a_consumer_goes_on_when_its_replica_is_killed_and_comes_back_to_it(cluster):
    topic = cluster.make_topic(replicas=(1, 2, 3))
    producer = a_producer(cluster, acks="all")
    send(producer, topic, values_of(0, 100))
    consumer = NearConsumer(cluster, topic, "c")
    consumer.poll_until(lambda: consumer.broker_id == 3)
    cluster.hit(3, "killed")
    send(producer, topic, values_of(100, 200))
    consumer.poll_until(lambda: len(consumer.values) >= 200)
    cluster.heal()
    cluster.wait_in_sync(topic)
    consumer.poll_until(lambda: consumer.broker_id == 3)
    send(producer, topic, values_of(200, 210))
    consumer.poll_until(lambda: len(consumer.values) >= 210)
    assert consumer.values == values_of(0, 210)
    consumer.close()
