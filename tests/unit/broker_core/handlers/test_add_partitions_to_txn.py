"""As a real Kafka 4.3.1 answered the same requests; additions in every state stand in test_end_txn."""

import pytest
from support.nodes.transaction_node import TransactionNode

from broker_core.protocol.api_table import ApiKey


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    return TransactionNode(tmp_path_factory.mktemp("node"))


@pytest.fixture
def name(request):
    return request.node.name


def several(node, version, *transactions, principal="User:admin"):
    """[(error of each partition)] of each transaction: (id, producer, verify only, partitions)."""
    answer = node.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        version,
        principal=principal,
        transactions=[
            {
                "transactional_id": transactional_id,
                "producer_id": producer[0],
                "producer_epoch": producer[1],
                "verify_only": verify_only,
                "topics": [{"name": "orders", "partitions": list(numbers)}],
            }
            for transactional_id, producer, verify_only, numbers in transactions
        ],
    )
    assert answer.error_code.name == "none", answer
    return [
        [each.partition_error_code.name for topic in result.topic_results for each in topic.results_by_partition]
        for result in answer.results_by_transaction
    ]


@pytest.mark.parametrize("version", range(4))
def test_every_version_opens_a_transaction(node, name, version):
    producer = node.producer(name)
    assert node.add(producer, 0, 2, transactional_id=name, version=version) == ["none", "none"]
    assert node.describe(name).topics[0].partitions == (0, 2)


@pytest.mark.parametrize(("version", "answer"), [(1, "invalid_producer_epoch"), (2, "producer_fenced")])
def test_the_error_for_a_fenced_producer_depends_on_the_version(node, name, version, answer):
    node.producer(name)
    producer_id, epoch = node.producer(name)
    assert node.add((producer_id, epoch - 1), transactional_id=name, version=version) == [answer]


def test_one_missing_partition_refuses_all_others(node, name):
    producer = node.producer(name)
    errors = ["none", "unknown_topic_or_partition"]
    assert node.add(producer, 0, 7, transactional_id=name) == ["operation_not_attempted", *errors[1:]]
    assert node.add(producer, 0, transactional_id=name, topic="none") == errors[1:]
    assert node.add(producer, 0, transactional_id=name, topic="__consumer_offsets") == ["topic_authorization_failed"]
    assert node.state(name)[0] == "Empty"


def test_an_empty_id_is_refused(node):
    assert node.add((1, 1), transactional_id="") == ["invalid_request"]


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_may_send_several_transactions_and_verify_only(node, name, version):
    one, two = f"{name}-1", f"{name}-2"
    producer, other = node.producer(one), node.producer(two)
    assert several(node, version, (one, producer, True, [0])) == [["transaction_abortable"]]
    assert several(node, version, (one, producer, False, [0]), (two, other, True, [0])) == [
        ["none"],
        ["transaction_abortable"],
    ]
    assert several(node, version, (one, producer, True, [0, 1])) == [["none", "transaction_abortable"]]
    assert several(node, version, (one, (producer[0], producer[1] - 1), True, [0])) == [["producer_fenced"]]
    assert several(node, version, (one, other, True, [0])) == [["invalid_producer_id_mapping"]]
    assert several(node, version, ("never", producer, True, [0])) == [["invalid_producer_id_mapping"]]
    assert several(node, version, ("", producer, True, [0])) == [["invalid_request"]]
    assert several(node, version, (one, producer, False, [0, 9])) == [
        ["operation_not_attempted", "unknown_topic_or_partition"]
    ]
    assert several(node, version) == []


def test_the_transaction_log_can_never_be_added(node, name):
    producer = node.producer(name)
    for version in (4, 5):
        answer = node.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            transactions=[
                {
                    "transactional_id": name,
                    "producer_id": producer[0],
                    "producer_epoch": producer[1],
                    "verify_only": False,
                    "topics": [{"name": "__transaction_state", "partitions": [0]}],
                }
            ],
        )
        (result,) = answer.results_by_transaction[0].topic_results[0].results_by_partition
        assert result.partition_error_code.name == "topic_authorization_failed"
