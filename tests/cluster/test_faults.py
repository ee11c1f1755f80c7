"""Every acknowledged record is there once and in order, whichever node is killed, paused or stopped meanwhile."""

import pytest
from support.clients.confluent_clients import a_producer, send
from support.cluster.cluster_writer import ClusterWriter
from support.cluster.tested_cluster import FAULTS, wait_for

PARTITIONS = 3
BY_DEFAULT = {("leader", "killed"), ("controller", "paused"), ("follower", "stopped")}
ROLES = ("leader", "follower", "controller")
CASES = [
    pytest.param(role, fault, marks=[] if (role, fault) in BY_DEFAULT else pytest.mark.long)
    for role in ROLES
    for fault in FAULTS
]


def victim_of(cluster, role, topic):
    if role == "controller":
        return cluster.controller_id
    leader = cluster.leader_of(topic)
    return leader if role == "leader" else min(cluster.ids - {leader})


@pytest.mark.parametrize(("role", "fault"), CASES)
def test_what_is_acknowledged_while_a_node_fails_is_there_once_in_order_and_equal_on_all_nodes(cluster, role, fault):
    topic = cluster.make_topic(partition_count=PARTITIONS)
    victim = victim_of(cluster, role, topic)
    led = [number for number in range(PARTITIONS) if cluster.leader_of(topic, number) == victim]
    with ClusterWriter(cluster, topic, partition_count=PARTITIONS) as writer:
        writer.wait_for_more()
        cluster.hit(victim, fault)
        writer.wait_for_more()
        if role == "controller":
            assert cluster.controller_id != victim
        assert all(cluster.leader_of(topic, number) != victim for number in led)
        assert role != "leader" or led
        for number in range(PARTITIONS):
            wait_for(lambda number=number: victim not in cluster.in_sync_replicas(topic, number))
        cluster.heal()
        cluster.wait_in_sync(topic, cluster.ids, partition_count=PARTITIONS)
        writer.wait_for_more()
    print(f"{role} {fault}: {writer.count} records, longest wait {writer.longest_gap_s:.2f} s")
    cluster.assert_once_and_in_order(topic, writer, partition_count=PARTITIONS)


@pytest.mark.long
def test_nothing_is_lost_while_all_nodes_are_restarted_one_after_the_other(cluster):
    topic = cluster.make_topic(partition_count=PARTITIONS)
    with ClusterWriter(cluster, topic, partition_count=PARTITIONS) as writer:
        for node in (*cluster.nodes, *cluster.nodes):
            pid = node.pid
            writer.wait_for_more()
            node.restart()
            assert node.pid != pid
            cluster.wait_in_sync(topic, cluster.ids, partition_count=PARTITIONS)
        writer.wait_for_more()
    print(f"rolling restart: {writer.count} records, longest wait {writer.longest_gap_s:.2f} s")
    cluster.assert_once_and_in_order(topic, writer, partition_count=PARTITIONS)


@pytest.mark.long
def test_a_node_that_is_killed_again_and_again_loses_nothing(cluster):
    topic = cluster.make_topic(partition_count=PARTITIONS)
    with ClusterWriter(cluster, topic, partition_count=PARTITIONS) as writer:
        for turn in range(9):
            writer.wait_for_more()
            node = cluster.node(1 + turn % 3)
            node.kill()
            writer.wait_for_more()
            node.start()
            cluster.wait_in_sync(topic, cluster.ids, partition_count=PARTITIONS)
    cluster.assert_once_and_in_order(topic, writer, partition_count=PARTITIONS)


def test_a_node_that_was_away_catches_up_over_several_segments(cluster):
    topic = cluster.make_topic(segment__bytes=1024 * 1024)
    away = min(cluster.ids - {cluster.leader_of(topic)})
    cluster.hit(away, "killed")
    with ClusterWriter(cluster, topic) as writer:
        writer.wait_for_more()
    before = cluster.stored_bytes(away, topic)
    big = [b"%d" % number * 3000 for number in range(1000)]
    send(a_producer(cluster, acks="all"), topic, big)
    assert cluster.stored_bytes(away, topic) == before, "it was away"
    cluster.heal()
    cluster.assert_replicas_are_equal(topic)
    assert len(cluster.stored_bytes(away, topic)) > 2
