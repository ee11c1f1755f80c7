"""What a partition does while replicas are away: min.insync.replicas, who may lead, a topic that was created again."""

import pytest
from confluent_kafka import KafkaError, Producer
from support.clients.confluent_clients import a_producer, read_all, send, values_of
from support.cluster.tested_cluster import TestedCluster, wait_for

BRIEF = {"message.timeout.ms": 60_000, "retries": 0, "log_level": 0}


def outcome_of(cluster, topic, value, **settings):
    """The error of one record, None if it was acknowledged."""
    outcomes = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **BRIEF, **settings})
    producer.produce(topic, value, on_delivery=lambda error, message: outcomes.append(error))
    producer.flush(70)
    (error,) = outcomes
    return error if error is None else error.code()


def is_taken(cluster, topic, value):
    return wait_for(lambda: outcome_of(cluster, topic, value, acks="all") is None)


def test_acks_all_is_refused_while_too_few_are_in_sync_acks_1_is_not_and_both_are_taken_again_later(cluster):
    topic = cluster.make_topic(min__insync__replicas=3)
    leader = cluster.leader_of(topic)
    away = min(cluster.ids - {leader})
    assert outcome_of(cluster, topic, b"before", acks="all") is None
    cluster.hit(away, "killed")
    cluster.wait_in_sync(topic, cluster.ids - {away})
    assert outcome_of(cluster, topic, b"refused", acks="all") == KafkaError.NOT_ENOUGH_REPLICAS
    assert outcome_of(cluster, topic, b"alone", acks="1") is None
    assert values_of(cluster, topic) == [b"before"], "what is not replicated enough is not seen"
    cluster.heal()
    cluster.wait_in_sync(topic)
    assert outcome_of(cluster, topic, b"after", acks="all") is None
    assert values_of(cluster, topic) == [b"before", b"alone", b"after"]
    cluster.assert_replicas_are_equal(topic)


@pytest.mark.long
def test_with_two_of_three_replicas_gone_acks_all_is_refused_and_acks_1_goes_on(tmp_path):
    """Among five nodes, so that the quorum has its majority."""
    with TestedCluster(tmp_path / "five", node_count=5) as cluster:
        topic = cluster.make_topic(replicas=[1, 2, 3])
        assert outcome_of(cluster, topic, b"before", acks="all") is None
        for node_id in (2, 3):
            cluster.hit(node_id, "killed")
        cluster.wait_in_sync(topic, [1])
        assert outcome_of(cluster, topic, b"refused", acks="all") == KafkaError.NOT_ENOUGH_REPLICAS
        assert outcome_of(cluster, topic, b"alone", acks="1") is None
        cluster.heal()
        cluster.wait_in_sync(topic, [1, 2, 3])
        assert outcome_of(cluster, topic, b"after", acks="all") is None
        assert values_of(cluster, topic) == [b"before", b"alone", b"after"]
        cluster.assert_replicas_are_equal(topic)


def test_a_replica_that_is_not_in_sync_does_not_lead_even_if_it_is_the_only_one(cluster):
    leader, follower, third = sorted(cluster.ids)
    topic = cluster.make_topic(replicas=[leader, follower], min__insync__replicas=1)
    send(a_producer(cluster, acks="all"), topic, [b"zero"])
    cluster.hit(follower, "killed")
    cluster.wait_in_sync(topic, [leader])
    send(a_producer(cluster, acks="all"), topic, [b"one", b"two"])
    cluster.hit(leader, "killed")
    cluster.node(follower).start()
    for node_id in (follower, third):
        wait_for(lambda node_id=node_id: leader_id_at(cluster, node_id, topic) == -1)
    assert cluster.folder_of(follower, topic).is_dir(), "it has a replica, which lacks what was written meanwhile"
    cluster.heal()
    assert cluster.leader_of(topic) == leader
    assert values_of(cluster, topic) == [b"zero", b"one", b"two"]
    cluster.assert_replicas_are_equal(topic)


def leader_id_at(cluster, node_id, topic):
    """As that node knows it."""
    from broker_core.server.local.cluster_questions import ask_about_partition

    return ask_about_partition(cluster.node(node_id).place.port, topic, 0).leader_id


def test_a_node_that_was_away_while_a_topic_was_created_again_has_only_the_new_one(cluster):
    topic = cluster.make_topic()
    send(a_producer(cluster, acks="all"), topic, [b"old %d" % number for number in range(100)])
    away = min(cluster.ids - {cluster.leader_of(topic)})
    wait_for(lambda: len(b"".join(cluster.stored_bytes(away, topic).values())) > 500)
    cluster.hit(away, "killed")
    admin = cluster.admin()
    admin.delete_topics([topic])[topic].result(20)
    wait_for(lambda: topic not in admin.list_topics(timeout=10).topics)
    cluster.make_topic(topic, replicas=[*sorted(cluster.ids - {away}), away], in_sync=cluster.ids - {away})
    send(a_producer(cluster, acks="all"), topic, [b"new"])
    assert b"old" in b"".join(cluster.stored_bytes(away, topic).values()), "it was away"
    cluster.heal()
    cluster.wait_in_sync(topic)
    assert [message.value() for message in read_all(cluster, topic)] == [b"new"]
    cluster.assert_replicas_are_equal(topic)
    assert b"old" not in b"".join(cluster.stored_bytes(away, topic).values())
