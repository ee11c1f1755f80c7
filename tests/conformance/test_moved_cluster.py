"""A live cluster of Apache Kafka moves to nodes of ours and back, under load: docs/moving.md; `pytest -m kafka`."""

import itertools

import pytest
from support.brokers import kafka_tools
from support.clients.confluent_clients import committed_values, read_all
from support.cluster.cluster_writer import ClusterWriter
from support.cluster.moving_cluster import OURS, REAL, MovingCluster
from support.cluster.moving_load import GroupReader, TransactionWriter

PARTITIONS = 3

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1500)]


@pytest.fixture
def cluster(tmp_path):
    if reason := kafka_tools.why_unavailable():
        pytest.skip(reason)
    with MovingCluster(tmp_path) as moving:
        yield moving


def move(cluster, leaving, joining, progress):
    """The steps of docs/moving.md; `progress` waits until every client has done more."""
    cluster.start(*joining)
    cluster.wait_checked()
    progress()
    assert cluster.move_partitions(dict(zip(leaving, joining, strict=True))) > PARTITIONS
    progress()
    for old, new in zip(leaving, joining, strict=True):
        cluster.add_voter(new)
        cluster.remove_voter(old)
        cluster.wait_checked()
        progress()
    cluster.wait_checked(*leaving)
    cluster.stop(*leaving)
    assert set(cluster.voters()) == set(joining)
    progress()


def test_a_live_cluster_moves_to_nodes_of_ours_and_back_and_nobody_loses_anything(cluster):
    written = cluster.make_topic("written", PARTITIONS)
    exchanged = cluster.make_topic("exchanged", PARTITIONS)
    with (
        GroupReader(cluster, written, "classic") as classic,
        GroupReader(cluster, written, "consumer", **{"group.protocol": "consumer"}) as consumer,
    ):
        with (
            ClusterWriter(cluster, written, partition_count=PARTITIONS) as writer,
            TransactionWriter(cluster, exchanged, "mover", partition_count=PARTITIONS) as transactions,
        ):

            def progress():
                transactions.wait_for_more()
                writer.wait_for_more()
                for reader in (classic, consumer):
                    reader.wait_for(writer.count - 200)

            progress()
            move(cluster, REAL, OURS, progress)
            move(cluster, OURS, REAL, progress)
        everything = set(itertools.chain(*writer.acknowledged.values()))
        for reader in (classic, consumer):
            reader.wait_until_read(everything)
    stored = read_all(cluster, written)
    for number in range(PARTITIONS):
        values = [message.value() for message in stored if message.partition() == number]
        assert values == writer.acknowledged[number]
        assert [int(value) for value in values] == sorted({int(value) for value in values})
    assert sorted(committed_values(cluster, exchanged)) == sorted(transactions.committed)
