"""A streaming query from a cluster of ours into it, while its nodes fail: it goes on, and each row is there once."""

import threading
import time
from itertools import count

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from broker_core.server.local.cluster_layout import open_layout
from broker_core.server.local.local_cluster import LocalCluster

FAULTS = ("kill", "pause", "stop")
ROLES = ("leader of the source", "leader of the sink", "active controller", "coordinator of transactions")


@pytest.fixture
def cluster(tmp_path):
    with LocalCluster(open_layout(tmp_path / "cluster", is_port_random=True)) as cluster:
        yield cluster


class Feeder:
    """Numbers from 0 on into the topic, acknowledged by all in-sync replicas."""

    def __init__(self, servers, topic):
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "socket.timeout.ms": 4000, "log_level": 0}
        )
        self._topic, self._stopping, self.sent, self.errors = topic, threading.Event(), 0, []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        for number in count():
            if self._stopping.wait(0.01):
                break
            self._producer.produce(self._topic, b"%d" % number, on_delivery=self._told)
            self._producer.poll(0)
            self.sent = number + 1

    def _told(self, error, message):
        if error is not None:
            self.errors.append(str(error))

    def stop(self):
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0 and self.errors == []


def victim_of(cluster, role):
    if role == "active controller":
        return cluster.controller_id
    topic = {"leader of the source": "source", "leader of the sink": "sink"}.get(role, "__transaction_state")
    return cluster.leader_of(topic)


def fail(cluster, fault, node_id):
    node = cluster.node(node_id)
    {"kill": node.kill, "pause": node.pause, "stop": node.stop}[fault]()
    assert node.is_paused or not node.is_running
    time.sleep(4)
    if node.is_paused:
        node.resume()
    else:
        node.start()


def await_batches(query, more_count):
    """Until so many further batches have ended. The query must not fail."""
    first = query.lastProgress["batchId"] if query.lastProgress else -1
    deadline = time.monotonic() + 150
    while (query.lastProgress or {"batchId": -1})["batchId"] < first + more_count:
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, "no batch ends any more"
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_query_goes_on_through_failures_of_its_brokers_and_each_row_is_there_once(spark, cluster, tmp_path, fault):
    servers = cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    for done in admin.create_topics([NewTopic(name, 3, 3) for name in ("source", "sink")]).values():
        done.result(20)
    feeder = Feeder(servers, "source")
    reader = spark.readStream.format("streamlog").option("kafka.bootstrap.servers", servers)
    writer = (
        reader.option("subscribe", "source")
        .option("startingOffsets", "earliest")
        .load()
        .select("value")
        .writeStream.format("streamlog")
        .option("kafka.bootstrap.servers", servers)
    )
    query = writer.option("topic", "sink").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        await_batches(query, 1)
        for role in ROLES:
            fail(cluster, fault, victim_of(cluster, role))
            await_batches(query, 2)
        feeder.stop()
        query.processAllAvailable()
        assert query.isActive, query.exception()
    finally:
        query.stop()
    rows = spark.read.format("streamlog").option("kafka.bootstrap.servers", servers).option("subscribe", "sink").load()
    numbers = sorted(int(row.value) for row in rows.selectExpr("cast(value as string) value").collect())
    assert numbers == list(range(feeder.sent))
