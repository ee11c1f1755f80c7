"""Kafka's own DumpLogSegments on each replica of a topic with transactions whose leader was killed."""

import pytest
from support.brokers.kafka_tools import dump_log_segments, why_unavailable
from support.clients.confluent_clients import a_producer, send
from support.cluster.cluster_writer import ClusterWriter

pytestmark = pytest.mark.kafka
SECONDS = 60


def test_kafka_finds_the_same_records_and_markers_on_each_replica_and_no_fault(cluster):
    if reason := why_unavailable():
        pytest.skip(reason)
    topic = cluster.make_topic()
    producer = a_producer(cluster, transactional__id=cluster.name("x"), log_level=0)
    producer.init_transactions(SECONDS)
    for number, end in enumerate((producer.commit_transaction, producer.abort_transaction)):
        producer.begin_transaction()
        send(producer, topic, [b"in transaction %d" % number])
        end(SECONDS)
    leader = cluster.leader_of(topic)
    with ClusterWriter(cluster, topic) as writer:
        writer.wait_for_more()
        cluster.hit(leader, "killed")
        writer.wait_for_more()
    cluster.heal()
    cluster.assert_replicas_are_equal(topic)
    for node in cluster.nodes:
        node.stop()
    dumps = []
    for node in cluster.nodes:
        folder = cluster.folder_of(node.node_id, topic)
        files = sorted(path for path in folder.iterdir() if path.suffix in (".log", ".index", ".timeindex"))
        dumped = dump_log_segments(*files, decoder="--print-data-log")
        dumps.append([line for line in dumped.splitlines() if line.startswith(("baseOffset:", "|"))])
    assert dumps[0] == dumps[1] == dumps[2]
    text = "\n".join(dumps[0])
    assert "endTxnMarker: COMMIT" in text and "endTxnMarker: ABORT" in text
    assert sum("payload: " in line for line in dumps[0]) >= writer.count + 2
