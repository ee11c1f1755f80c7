import pytest
from support.builders.builders import a_batch
from support.nodes.whole_node import EVE, a_guarded_node, a_node, allow, ask, make_topic, produce

from broker_core.model.access_control import CLUSTER_NAME, Operation, ResourceType
from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t", 2)
    make_topic(node, "u")
    produce(node, "t", a_batch(3), partition=1)
    return node


def sizes(node, topics, version=None):
    """{topic: {partition: bytes}} of the one directory."""
    (found,) = ask(node, ApiKey.DESCRIBE_LOG_DIRS, version, topics=topics).results
    assert found.error_code.name == "none"
    assert found.log_dir.startswith("/")
    assert all((each.partition_size >= 0, each.offset_lag, each.is_future_key) == (True, 0, False)
               for topic in found.topics for each in topic.partitions)  # fmt: skip
    return {topic.name: {each.partition_index: each.partition_size for each in topic.partitions}
            for topic in found.topics if not topic.name.startswith("__")}  # fmt: skip


@pytest.mark.parametrize("version", range(1, 6))
def test_null_means_every_partition(node, version):
    assert sizes(node, None, version) == {"t": {0: 0, 1: len(a_batch(3))}, "u": {0: 0}}


def test_only_requested_partitions_are_shown(node):
    assert sizes(node, [{"topic": "t", "partitions": [1]}]) == {"t": {1: len(a_batch(3))}}
    assert sizes(node, []) == {}
    twice = [{"topic": "t", "partitions": [1, 1]}, {"topic": "t", "partitions": [1]}]
    assert sizes(node, twice) == {"t": {1: len(a_batch(3))}}
    (found,) = ask(node, ApiKey.DESCRIBE_LOG_DIRS, topics=twice).results
    assert [len(topic.partitions) for topic in found.topics] == [1]


def test_missing_partitions_are_omitted(node):
    asked = [{"topic": "t", "partitions": [7, -1]}, {"topic": "nowhere", "partitions": [0]}]
    assert sizes(node, asked) == {}


def test_disk_space_is_returned_from_version_4_on(node):
    (found,) = ask(node, ApiKey.DESCRIBE_LOG_DIRS, 4, topics=[]).results
    assert found.total_bytes >= found.usable_bytes > 0


@pytest.mark.parametrize("version", range(1, 6))
def test_without_describe_access_to_the_cluster_the_response_is_empty(tmp_path, version):
    node = a_guarded_node(tmp_path / "log")
    answer = ask(node, ApiKey.DESCRIBE_LOG_DIRS, version, topics=None, principal=EVE)
    assert answer.results == ()
    # Version 1 and 2 have no place for the error: the list is empty.
    assert getattr(answer, "error_code", None) is None or answer.error_code.name == "cluster_authorization_failed"
    allow(node, EVE, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    assert len(ask(node, ApiKey.DESCRIBE_LOG_DIRS, version, topics=None, principal=EVE).results) == 1
