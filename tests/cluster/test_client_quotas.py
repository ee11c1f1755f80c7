"""Quotas in a cluster: each node counts what it serves, and the active controller the partitions of all."""

from datetime import timedelta

from support.brokers.small_broker import RawClient
from support.builders.builders import a_batch, some_records
from support.cluster.tested_cluster import wait_for

from broker_core.protocol.api_table import ApiKey

CLIENT_ID = "test"
"""Of a RawClient; other tests have other clients."""


def at_node(cluster, node_id):
    return RawClient(cluster.node(node_id).place.port)


def set_quotas(cluster, **quotas):
    """At one node; until all know. A value of None removes one."""
    ops = [{"key": key, "value": value or 0, "remove": value is None} for key, value in quotas.items()]
    entity = [{"entity_type": "client-id", "entity_name": CLIENT_ID}]
    first, *_ = cluster.ids
    with at_node(cluster, first) as client:
        entries = [{"entity": entity, "ops": ops}]
        (answer,) = client.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=entries, validate_only=False).entries
    assert answer.error_code.value == 0, answer
    wanted = {key: value for key, value in quotas.items() if value is not None}
    for node_id in cluster.ids:
        wait_for(lambda node_id=node_id: described(cluster, node_id) == wanted)


def described(cluster, node_id):
    component = {"entity_type": "client-id", "match_type": 0, "match": CLIENT_ID}
    with at_node(cluster, node_id) as client:
        entries = client.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=[component], strict=True).entries
    return {value.key: value.value for entry in entries for value in entry.values}


def create(cluster, node_id, name, partition_count):
    topic = {"name": name, "num_partitions": partition_count, "replication_factor": 1}
    with at_node(cluster, node_id) as client:
        answer = client.ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=30_000)
    return answer.topics[0].error_code.name, answer.throttle_time > timedelta()


def test_a_quota_that_is_set_at_one_node_holds_at_all_and_the_leader_throttles(cluster):
    topic = cluster.make_topic()
    leader_id = cluster.leader_of(topic)
    batch = a_batch(some_records(1, value=b"x" * 20_000))
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    set_quotas(cluster, producer_byte_rate=1_000)
    try:
        with at_node(cluster, leader_id) as client:
            answer = client.ask(ApiKey.PRODUCE, 9, acks=-1, timeout=30_000, transactional_id=None, topic_data=data)
    finally:
        set_quotas(cluster, producer_byte_rate=None)
    assert answer.responses[0].partition_responses[0].error_code.value == 0
    assert answer.throttle_time >= timedelta(seconds=9)  # twenty KB are two seconds' more than ten


def test_partitions_that_are_created_at_different_nodes_count_together(cluster):
    first, second, _ = sorted(cluster.ids)
    names = [cluster.name("q") for _ in range(3)]
    set_quotas(cluster, controller_mutation_rate=0.01)
    try:
        # What was saved up, 0.11 partitions, lets any number pass once.
        assert create(cluster, first, names[0], 2) == ("none", False)
        assert create(cluster, second, names[1], 2) == ("throttling_quota_exceeded", True)
        assert create(cluster, first, names[2], 2) == ("throttling_quota_exceeded", True)
    finally:
        set_quotas(cluster, controller_mutation_rate=None)
    assert create(cluster, second, names[1], 2) == ("none", False)
