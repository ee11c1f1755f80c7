"""As a real Kafka 4.3.1 answered the same requests."""

from datetime import UTC, datetime, timedelta

import pytest
from support.nodes.transaction_node import TransactionNode


@pytest.fixture
def node(tmp_path):
    return TransactionNode(tmp_path / "log")


def test_a_transaction_is_described_with_its_partitions(node):
    producer_id, epoch = node.producer(timeout_ms=30_000)
    node.add((producer_id, epoch), 0, 2)
    state = node.describe()
    assert (state.error_code.name, state.transaction_state) == ("none", "Ongoing")
    assert (state.producer_id, state.producer_epoch) == (producer_id, epoch)
    assert state.transaction_timeout == timedelta(seconds=30)
    assert state.transaction_start_time == datetime.fromtimestamp(node.clock.ms / 1000, UTC)
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("orders", (0, 2))]


def test_an_ended_transaction_keeps_its_start_time_and_has_no_partitions(node):
    producer = node.producer()
    node.add(producer, 0)
    started = node.describe().transaction_start_time
    node.end(producer)
    state = node.describe()
    assert (state.transaction_state, state.transaction_start_time, state.topics) == ("CompleteCommit", started, ())


def test_unknown_and_empty_ids_get_only_an_error(node):
    unknown, empty = node.describe("never"), node.describe("")
    assert [unknown.error_code.name, empty.error_code.name] == ["transactional_id_not_found", "invalid_request"]
    assert {(each.transaction_state, each.producer_id, each.producer_epoch) for each in (unknown, empty)} == {
        ("", 0, 0)
    }


def test_a_client_without_describe_access_to_the_id_is_refused(tmp_path):
    node = TransactionNode(
        tmp_path / "log",
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:admin",
    )
    node.producer()
    assert node.describe(principal="User:eve").error_code.name == "transactional_id_authorization_failed"
