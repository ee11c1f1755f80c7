"""Three nodes on real sockets in one process."""

import time
from functools import partial

import pytest
from support.brokers.cluster_in_process import ClusterInProcess
from support.builders.builders import a_batch, a_transactional_batch

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.client.quorum_description import describe_quorum
from broker_core.cluster import GroupOffset, TransactionalProducer
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.exceptions import DirectoryLockedError, StreamlogError, TopicExistsError
from broker_core.model.identifiers import IsolationLevel, OffsetSpec, TopicPartition
from broker_core.record.batch_reader import iter_headers, records_of
from broker_core.server.cluster.cluster_server import ClusterServer
from broker_core.server.cluster.replica_limits import parse_replica_limits
from broker_core.server.quorum.quorum_server import QuorumServer
from broker_core.server.quorum.quorum_settings import parse_quorum_settings

WAIT_SECONDS = 30


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with ClusterInProcess(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster
        assert cluster.ended == []


@pytest.fixture
def client(cluster):
    client = cluster.client()
    yield client
    client.close()


def until(is_true, what):
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def values_in(client, partition, isolation=IsolationLevel.READ_COMMITTED):
    end = client.list_offsets({partition: OffsetSpec.LATEST}, isolation)[partition].offset
    offset, found = 0, []
    while offset < end:
        fetched = client.fetch(partition, offset, max_bytes=1 << 20, isolation=isolation)
        aborted = {each.producer_id for each in fetched.aborted_transactions}
        for position, header in iter_headers(fetched.buffer):
            if not header.is_control and header.producer_id not in aborted:
                found += [record.value for record in records_of(fetched.buffer, position)]
        offset = fetched.next_offset
    return found


def is_stable(client, partition):
    """No transaction is open there."""
    bounds = client.bounds(partition)
    return bounds.last_stable_offset == bounds.high_watermark


def leader_of(cluster, partition):
    (server, *_) = cluster.servers.values()
    return cluster.on_loop(lambda: server.node.cluster.leader_of(partition).leader_id)


def in_sync_with(cluster, partition):
    (server, *_) = cluster.servers.values()
    return sorted(cluster.on_loop(lambda: server.node.cluster.leader_of(partition).in_sync_ids))


def test_a_topic_is_created_by_any_node_and_each_replica_gets_its_records(cluster, client):
    client.create_topic("made", partition_count=3)
    with pytest.raises(TopicExistsError):
        client.create_topic("made")
    for number in range(3):
        client.append(TopicPartition("made", number), a_batch(2))
        assert values_in(client, TopicPartition("made", number)) == [b"value-0", b"value-1"]
    leaders = {leader_of(cluster, TopicPartition("made", number)) for number in range(3)}
    assert len(leaders) > 1, "the leaders are not spread"
    partition = TopicPartition("made", 0)
    replicas = [server.node.replicas._replicas[partition] for server in cluster.servers.values()]
    until(lambda: {each.high_watermark for each in replicas} == {2}, "a follower has not heard of the high watermark")


def test_a_topic_is_deleted_everywhere(cluster, client):
    client.create_topic("gone")
    partition = TopicPartition("gone", 0)
    client.append(partition, a_batch(1))
    client.delete_topic("gone")
    until(
        lambda: all(partition not in server.node.replicas._replicas for server in cluster.servers.values()),
        "a replica of a deleted topic is left",
    )


def test_settings_of_topics_are_changed_by_the_controller(cluster, client):
    client.create_topic("set", configs={"retention.ms": "77"})
    assert client.describe_topics(["set"])["set"].configs["retention.ms"] == "77"


def test_committed_offsets_are_found_at_the_coordinator_from_every_node(cluster, client):
    client.create_topic("read")
    partition = TopicPartition("read", 0)
    client.commit_offsets("g", {partition: GroupOffset(offset=5)})
    for node_id in cluster.servers:
        other = cluster.client(only=node_id)
        assert other.fetch_offsets("g")[partition].offset == 5
        other.close()


def test_a_transaction_over_partitions_of_several_leaders_is_committed_or_aborted_as_one(cluster, client):
    client.create_topic("txn", partition_count=3)
    partitions = [TopicPartition("txn", number) for number in range(3)]
    for commit in (True, False):
        identity = client.init_producer("x")
        producer = TransactionalProducer(
            transactional_id="x", producer_id=identity.producer_id, producer_epoch=identity.producer_epoch
        )
        client.add_partitions_to_transaction(producer, partitions)
        for partition in partitions:
            client.append(
                partition,
                a_batch(1, producer=(identity.producer_id, identity.producer_epoch, 0), is_transactional=True),
            )
        client.end_transaction(producer, commit=commit)
        until(
            lambda: all(is_stable(client, partition) for partition in partitions),
            "a marker is missing in a partition",
        )
        assert [values_in(client, partition) for partition in partitions] == [[b"value-0"]] * 3


def test_an_append_outside_of_its_transaction_is_refused_also_where_another_broker_is_the_coordinator(cluster, client):
    client.create_topic("outside", partition_count=3)
    identity = client.init_producer("y")
    for number in range(3):
        with pytest.raises(StreamlogError):
            client.append(
                TopicPartition("outside", number),
                a_transactional_batch(1, producer_id=identity.producer_id),
            )
        assert values_in(client, TopicPartition("outside", number), IsolationLevel.READ_UNCOMMITTED) == []


def test_a_directory_of_a_running_node_is_refused(cluster):
    def start_again():
        given = cluster.settings(1) | {"listeners": "PLAINTEXT://127.0.0.1:0"}
        ClusterServer(
            parse_broker_config(given),
            partial(QuorumServer, parse_quorum_settings(given, is_broker=True), cluster_id=None),
            parse_replica_limits(given),
            on_end=lambda error: None,
        )

    with pytest.raises(DirectoryLockedError, match="is used by another process"):
        cluster.on_loop(start_again)


@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("who", ["leader", "controller"])
def test_a_node_that_goes_costs_no_acknowledged_record_and_catches_up_when_it_comes_back(cluster, client, how, who):
    name = f"{how}-{who}"
    client.create_topic(name)
    partition = TopicPartition(name, 0)
    client.append(partition, a_batch(2))
    victim = leader_of(cluster, partition) if who == "leader" else cluster.on_loop(cluster.controller_id)
    getattr(cluster, how)(victim)
    client.append(partition, a_batch(1))
    assert leader_of(cluster, partition) != victim
    cluster.start(victim)
    client.append(partition, a_batch(1))
    until(lambda: in_sync_with(cluster, partition) == [1, 2, 3], f"node {victim} is not in sync again")
    assert values_in(client, partition) == [b"value-0", b"value-1", b"value-0", b"value-0"]


def test_requests_for_the_active_controller_are_answered_by_every_node(cluster, client):
    leader_id = cluster.on_loop(cluster.controller_id)
    for node_id in cluster.servers:
        servers = cluster.settings(node_id)["listeners"].split(",")[0].removeprefix("PLAINTEXT://")
        found = describe_quorum(parse_client_settings({"bootstrap.servers": servers}))
        assert (found.leader_id, sorted(each.node_id for each in found.replicas)) == (leader_id, [1, 2, 3])


def test_a_node_that_finds_no_majority_stops_when_it_is_asked_to(tmp_path):
    cluster = ClusterInProcess(tmp_path)
    cluster.open()
    cluster.start_and_stop_alone(1)
    cluster.start_and_stop_alone(1)  # the directory and the ports are free again
    cluster.__exit__()
