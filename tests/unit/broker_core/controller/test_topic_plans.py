"""Topics and partitions are created and deleted: the records, and Kafka's refusals in Kafka's order."""

import pytest
from support.controller.small_cluster import SmallCluster, directory

from broker_core.controller.topic_plans import plan_more_partitions, plan_topic_deletion
from broker_core.metadata.metadata_records import ClearElrRecord, ConfigRecord, PartitionRecord, TopicRecord
from broker_core.model.exceptions import StreamlogError


@pytest.fixture
def cluster():
    cluster = SmallCluster(1, 2, 3)
    cluster.create("existing", (1, 2))
    cluster.fence(3)
    return cluster


def refusal(call, *arguments, **fields):
    with pytest.raises(StreamlogError) as refused:
        call(*arguments, **fields)
    return refused.value.error_code.name


def grow(cluster, name, count, assignments=None):
    cluster.ask(lambda facts: plan_more_partitions(facts, name, count, assignments, entropy=cluster.dice))


@pytest.mark.parametrize(
    ("name", "assignments", "fields", "error"),
    [
        ("", (), {}, "invalid_topic_exception"),
        ("__cluster_metadata", (), {}, "invalid_request"),
        ("existing", (), {"cleanup_policy": "x"}, "topic_already_exists"),
        ("t", (), {"cleanup_policy": "x"}, "invalid_config"),
        ("t", (), {"no_such_setting": "x"}, "invalid_config"),
        ("t", (), {"factor": 0}, "invalid_replication_factor"),
        ("t", (), {"factor": 4}, "invalid_replication_factor"),
        ("t", (), {"partitions": 0, "factor": 1}, "invalid_partitions"),
        ("t", ((1, 2),), {"factor": 2}, "invalid_request"),
        ("t", ((1, 2),), {"partitions": 1}, "invalid_request"),
        ("t", ((),), {}, "invalid_replica_assignment"),
        ("t", ((1, 1),), {}, "invalid_replica_assignment"),
        ("t", ((1, 9),), {}, "invalid_replica_assignment"),
        ("t", ((1, 2), (1,)), {}, "invalid_replica_assignment"),
        ("t", ((3,),), {}, "invalid_replica_assignment"),
    ],
)
def test_a_topic_that_cannot_be_made_is_refused(cluster, name, assignments, fields, error):
    before = list(cluster.log)
    assert refusal(cluster.create, name, *assignments, **fields) == error
    assert cluster.log == before


def test_a_topic_is_its_name_its_settings_and_its_partitions_in_one_batch(cluster):
    first = len(cluster.log)
    cluster.create("t", (1, 3), (2, 1), min_insync_replicas="2", retention_ms="5")
    records = cluster.log[first:]
    assert [type(record) for record in records] == [
        TopicRecord, ConfigRecord, ConfigRecord, ClearElrRecord, PartitionRecord, PartitionRecord,
    ]  # fmt: skip
    assert (records[4].replicas, records[4].isr, records[4].leader) == ((1, 3), (1,), 1)
    assert records[4].directories == (directory(1), directory(3))


def test_the_first_live_replica_leads(cluster):
    cluster.create("t", (3, 2))
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))


def test_a_fenced_broker_gets_replicas_where_the_live_ones_are_not_enough(cluster):
    cluster.create("t", partitions=6, factor=3)
    for number in range(6):
        state = cluster.partition("t", number)
        assert sorted(state.replicas) == [1, 2, 3] and state.leader in (1, 2) and 3 not in state.isr


def test_without_a_live_broker_nothing_is_placed(cluster):
    cluster.fence(1)
    cluster.fence(2)
    assert refusal(cluster.create, "t", factor=1) == "invalid_replication_factor"


def test_a_broker_on_its_way_out_gets_no_replicas(cluster):
    cluster.beat(3)
    cluster.create("led", (3,))
    cluster.beat(3, want_stop=True)
    assert refusal(cluster.create, "t", factor=3) == "invalid_replication_factor"


def test_a_broker_whose_directories_are_cordoned_gets_no_replicas(cluster):
    cluster.beat(2, cordoned_log_dirs=(directory(2),))
    cluster.create("t", partitions=4, factor=2)
    assert {broker for number in range(4) for broker in cluster.partition("t", number).replicas} == {1, 3}


def test_more_partitions_have_as_many_replicas_as_the_first(cluster):
    grow(cluster, "existing", 3)
    assert [len(cluster.partition("existing", number).replicas) for number in range(3)] == [2, 2, 2]
    grow(cluster, "existing", 4, [(2, 1)])
    assert cluster.partition("existing", 3).replicas == (2, 1)


@pytest.mark.parametrize(
    ("name", "count", "assignments", "error"),
    [
        ("none", 3, None, "unknown_topic_or_partition"),
        ("existing", 1, None, "invalid_partitions"),
        ("existing", 0, None, "invalid_partitions"),
        ("existing", 2, [(1, 2), (2, 1)], "invalid_replica_assignment"),
        ("existing", 2, [(1,)], "invalid_replica_assignment"),
        ("existing", 2, [(1, 9)], "invalid_replica_assignment"),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(cluster, name, count, assignments, error):
    assert refusal(grow, cluster, name, count, assignments) == error


def test_a_deleted_topic_is_gone_with_its_partitions(cluster):
    topic_id = cluster.image.topics["existing"].topic_id
    cluster.ask(lambda facts: plan_topic_deletion(facts, topic_id))
    assert "existing" not in cluster.image.topics and cluster.image.partition(topic_id, 0) is None
    assert refusal(cluster.ask, lambda facts: plan_topic_deletion(facts, topic_id)) == "unknown_topic_id"
