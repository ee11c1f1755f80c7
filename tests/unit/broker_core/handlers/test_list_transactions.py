"""As a real Kafka 4.3.1 answered the same requests."""

import pytest
from support.nodes.transaction_node import TransactionNode

from broker_core.protocol.api_table import ApiKey


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    node = TransactionNode(tmp_path_factory.mktemp("node"))
    node.producer("idle")
    node.add(node.producer("open"), 0, transactional_id="open")
    node.pass_ms(5_000)
    done = node.producer("done")
    node.add(done, 0, transactional_id="done")
    node.end(done, transactional_id="done")
    return node


def listed(node, version=2, *, principal="User:admin", states=(), producer_ids=(), **more):
    answer = node.ask(
        ApiKey.LIST_TRANSACTIONS,
        version,
        principal=principal,
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        **({"duration_filter": -1} if version >= 1 and "duration_filter" not in more else {}),
        **more,
    )
    assert answer.error_code.name == "none"
    return [each.transactional_id for each in answer.transaction_states], list(answer.unknown_state_filters)


@pytest.mark.parametrize("version", range(3))
def test_states_and_producers_are_filtered_in_every_version(node, version):
    assert listed(node, version) == (["done", "idle", "open"], [])
    assert listed(node, version, states=["Ongoing", "CompleteCommit", "bogus"]) == (["done", "open"], ["bogus"])
    assert listed(node, version, states=["bogus"]) == ([], ["bogus"])
    open_id = node.describe("open").producer_id
    assert listed(node, version, producer_ids=[open_id])[0] == ["open"]
    assert listed(node, version, states=["Empty"], producer_ids=[open_id])[0] == []


def test_the_duration_filter_matches_ids_without_a_transaction(node):
    assert listed(node, duration_filter=4_999)[0] == ["idle", "open"]
    assert listed(node, duration_filter=5_000)[0] == ["idle"]


def test_a_pattern_must_match_the_whole_id(node):
    assert listed(node, transactional_id_pattern="o.*n")[0] == ["open"]
    assert listed(node, transactional_id_pattern="ope")[0] == []
    assert listed(node, transactional_id_pattern="")[0] == ["done", "idle", "open"]
    refused = node.ask(
        ApiKey.LIST_TRANSACTIONS,
        2,
        state_filters=[],
        producer_id_filters=[],
        duration_filter=-1,
        transactional_id_pattern="(",
    )
    assert refused.error_code.name == "invalid_regular_expression"


def test_transactions_without_describe_access_are_omitted(tmp_path):
    node = TransactionNode(
        tmp_path / "log",
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:admin",
    )
    node.producer()
    assert (listed(node)[0], listed(node, principal="User:eve")[0]) == (["t"], [])
