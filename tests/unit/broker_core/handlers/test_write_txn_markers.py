"""As a real Kafka 4.3.1 answered the same requests, in this order."""

import pytest
from support.nodes.transaction_node import TransactionNode

from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def node(tmp_path):
    return TransactionNode(tmp_path / "log")


def mark(node, producer, *numbers, version=1, commit=False, coordinator_epoch=0, topic="orders", **more):
    answer = node.ask(
        ApiKey.WRITE_TXN_MARKERS,
        version,
        markers=[
            {
                "producer_id": producer[0],
                "producer_epoch": producer[1],
                "transaction_result": commit,
                "coordinator_epoch": coordinator_epoch,
                "topics": [{"name": topic, "partition_indexes": list(numbers or (0,))}],
                **more,
            }
        ],
    )
    return [each.error_code.name for each in answer.markers[0].topics[0].partitions]


@pytest.mark.parametrize("version", [1, 2])
def test_markers_are_written_unless_the_log_has_newer_ones(node, version):
    assert mark(node, (9000, 3), version=version) == ["none"]
    assert mark(node, (9000, 3), version=version) == ["none"]
    assert mark(node, (9000, 2), version=version) == ["invalid_producer_epoch"]
    assert mark(node, (9000, 3), version=version, coordinator_epoch=-1) == ["transaction_coordinator_fenced"]
    assert mark(node, (9000, 3), 0, 9, version=version) == ["none", "unknown_topic_or_partition"]
    assert mark(node, (9000, 3), version=version, topic="none") == ["unknown_topic_or_partition"]
    assert node.log() == [(9000, 3, False)] * 3


def test_an_administrator_ends_a_hanging_transaction(node):
    producer = node.producer()
    assert node.produce(producer, 0) == "none"
    assert mark(node, producer) == ["none"]
    assert node.open_producers() == set()


def test_group_offsets_are_ended_too(node):
    producer = node.producer()
    node.commit_offset(producer, 5, version=5)
    assert mark(node, (producer[0], 3), topic="__consumer_offsets", commit=True) == ["none"]
    assert node.committed_offset() == 5
    assert mark(node, (producer[0], 2), topic="__consumer_offsets") == ["invalid_producer_epoch"]


def test_a_client_without_cluster_action_access_is_refused(tmp_path):
    node = TransactionNode(
        tmp_path / "log",
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:admin",
    )
    marker = {"producer_id": 1, "producer_epoch": 0, "topics": [{"name": "orders", "partition_indexes": [0]}]}
    answer = node.ask(ApiKey.WRITE_TXN_MARKERS, 1, principal="User:eve", markers=[marker])
    assert answer.markers[0].topics[0].partitions[0].error_code.name == "cluster_authorization_failed"


def test_no_marker_is_written_to_the_transaction_log(node):
    """It knows the offsets of its own records beforehand: one of somebody else's kept all that came after waiting."""
    _, epoch = node.producer("mine")
    assert mark(node, (9000, 3), topic="__transaction_state") == ["invalid_topic_exception"]
    assert node.producer("mine")[1] == epoch + 1
