import pytest
from kio.schema.errors import ErrorCode
from support.brokers.scripted_broker import NO_TIME, ScriptedBroker, schema_of
from support.nodes.scripted_coordinator import ScriptedCoordinator, ScriptedTransaction

from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState
from broker_core.protocol.api_table import ApiKey


@pytest.fixture
def broker():
    with ScriptedBroker() as scripted:
        yield scripted


@pytest.fixture
def coordinator(broker):
    made = ScriptedCoordinator(broker)
    made.entries["q.1-a"] = ScriptedTransaction(
        producer_id=1, epoch=3, state="Ongoing", partitions={("t", 1), ("t", 0)}
    )
    made.entries["q.1-b"] = ScriptedTransaction(producer_id=2, state="CompleteCommit")
    made.entries["qx1-c"] = ScriptedTransaction(producer_id=3, state="Empty")
    return made


def test_a_transaction_is_described_by_its_coordinator(broker, coordinator):
    found = broker.client().describe_transactions(["q.1-a", "q.1-b", "nobody"])
    assert sorted(found) == ["q.1-a", "q.1-b"]
    one = found["q.1-a"]
    assert (one.state, one.producer_id, one.producer_epoch) == (TransactionState.ONGOING, 1, 3)
    assert (one.timeout_ms, one.start_time_ms) == (60_000, 5)
    assert one.partitions == (TopicPartition("t", 0), TopicPartition("t", 1))
    assert found["q.1-b"].start_time_ms == -1
    assert broker.client().describe_transactions([]) == {}


def test_transactions_are_listed_by_prefix_and_state_sorted(broker, coordinator):
    client = broker.client()

    def names(**given):
        return [one.transactional_id for one in client.list_transactions(**given)]

    assert names() == ["q.1-a", "q.1-b", "qx1-c"]
    assert names(prefix="q.1-") == ["q.1-a", "q.1-b"]
    assert names(prefix="q.1-", states=[TransactionState.ONGOING]) == ["q.1-a"]
    assert names(states=[TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT]) == ["q.1-b", "qx1-c"]
    assert names(states=[]) == []
    patterns = [message.transactional_id_pattern for message in broker.asked(ApiKey.LIST_TRANSACTIONS)]
    assert patterns == [None, r"q\.1\-.*", r"q\.1\-.*", None]


def test_a_broker_without_an_id_filter_lists_all(broker, coordinator):
    broker.versions[ApiKey.LIST_TRANSACTIONS] = (0, 1)
    assert [one.transactional_id for one in broker.client().list_transactions(prefix="qx")] == ["qx1-c"]
    assert broker.asked(ApiKey.LIST_TRANSACTIONS)[0].__version__ == 0


def test_transactions_are_listed_from_every_broker(broker, coordinator):
    with ScriptedBroker(node_id=2) as other:
        broker.nodes[2] = ("127.0.0.1", other.port)
        schema = schema_of(ApiKey.LIST_TRANSACTIONS, 2)
        nothing = schema.ListTransactionsResponse(
            throttle_time=NO_TIME, error_code=ErrorCode.none, transaction_states=()
        )
        other.script(ApiKey.LIST_TRANSACTIONS, nothing)
        assert len(broker.client().list_transactions()) == 3
        assert len(other.asked(ApiKey.LIST_TRANSACTIONS)) == 1
