import pytest
from support.nodes.replica_builders import ReplicaNode

from broker_core.broker.coordination.internal_topic import InternalTopic
from broker_core.log_directory.internal_topics import CONSUMER_OFFSETS_PARTITION
from broker_core.model.exceptions import StorageError


@pytest.fixture
def node(tmp_path):
    return ReplicaNode(tmp_path / "log")


@pytest.fixture
def topic(node):
    return InternalTopic(CONSUMER_OFFSETS_PARTITION, node.topics, node.replicas)


def make(node, topic):
    told = []
    topic.make(lambda replica: told.append("made"), told.append)
    node.jobs.run_all()
    return told


def test_the_topic_is_created_on_demand_with_one_compacted_partition(node, topic):
    assert topic.replica() is None
    assert make(node, topic) == ["made"]
    assert topic.replica().topic_partition == CONSUMER_OFFSETS_PARTITION
    made = node.topics.image.topics["__consumer_offsets"]
    assert (made.partition_count, made.configs["cleanup.policy"]) == (1, "compact")


def test_a_topic_created_meanwhile_is_used(node, topic):
    assert make(node, topic) + make(node, topic) == ["made", "made"]


def test_a_disk_error_is_reported(node, topic):
    node.fs.refuse("write", "__cluster_metadata-0/00000000000000000000.log")
    (error,) = make(node, topic)
    assert (node.fs.refused, isinstance(error, StorageError)) == (1, True)
