import pytest
from support.nodes.whole_node import EVE, a_guarded_node, a_node, allow, ask, make_topic

from broker_core.handlers.topic_answers import absence_of
from broker_core.model.access_control import Operation, ResourceType
from broker_core.model.exceptions import StorageError
from broker_core.model.identifiers import TopicPartition
from broker_core.protocol.api_table import ApiKey


def both(node, **more):
    """The topic as Metadata and as DescribeTopicPartitions show it."""
    asked = {"topics": [{"name": "t"}], **more}
    metadata = ask(node, ApiKey.METADATA, include_topic_authorized_operations=True, **asked).topics[0]
    described = ask(node, ApiKey.DESCRIBE_TOPIC_PARTITIONS, response_partition_limit=9, cursor=None, **asked).topics[0]
    return metadata, described


def test_both_apis_describe_a_topic_the_same(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t", 2)
    one, other = both(node)
    shown = ("name", "topic_id", "is_internal", "topic_authorized_operations", "error_code")
    assert [getattr(one, name) for name in shown] == [getattr(other, name) for name in shown]
    shown = ("partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "offline_replicas")
    for left, right in zip(one.partitions, other.partitions, strict=True):
        assert [getattr(left, name) for name in shown] == [getattr(right, name) for name in shown]


def test_a_partition_whose_disk_has_failed_has_no_leader(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t", 2)
    node.replicas.get(TopicPartition("t", 1)).go_offline(StorageError("the disk failed"))
    for topic in both(node):
        healthy, broken = topic.partitions
        assert (healthy.error_code.name, healthy.leader_id, healthy.offline_replicas) == ("none", 1, ())
        assert (broken.error_code.name, broken.leader_id, broken.offline_replicas) == ("leader_not_available", -1, (1,))
        assert broken.replica_nodes == (1,)


def test_authorized_operations_are_those_of_the_client(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    make_topic(node, "t")
    allow(node, EVE, Operation.WRITE, ResourceType.TOPIC, "t")
    expected = 1 << Operation.WRITE | 1 << Operation.DESCRIBE
    assert [topic.topic_authorized_operations for topic in both(node, principal=EVE)] == [expected] * 2


@pytest.mark.parametrize(
    ("name", "expected"), [("t", "unknown_topic_or_partition"), ("a b", "invalid_topic_exception")]
)
def test_a_missing_topic_is_distinguished_from_an_invalid_name(name, expected):
    assert absence_of(name).name == expected
