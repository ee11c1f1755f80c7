"""kafka-transactions.sh."""

import pytest
from support.clients.confluent_clients import a_producer, committed_values, make_topic, send

SECONDS = 30


@pytest.fixture
def topic(broker):
    return make_topic(broker, 2)


@pytest.fixture
def opened(broker, topic):
    """A producer with one transaction committed and one open: its transactional id."""
    transactional_id = broker.name("x")
    producer = a_producer(broker, transactional__id=transactional_id, transaction__timeout__ms=600_000)
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    send(producer, topic, [{"value": b"committed", "partition": 0}])
    producer.commit_transaction(SECONDS)
    producer.begin_transaction()
    send(producer, topic, [{"value": b"open", "partition": number} for number in (0, 0, 1)])
    yield transactional_id
    producer.purge()


def describe(tools, transactional_id):
    (row,) = tools.table("TransactionsCommand", "describe", "--transactional-id", transactional_id)
    return row


def producers(tools, topic, number):
    return tools.table("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", number)


def test_an_open_transaction_is_listed_and_described(tools, topic, opened):
    listed = tools.table("TransactionsCommand", "list")
    (row,) = [row for row in listed if row["TransactionalId"] == opened]
    assert (row["Coordinator"], row["TransactionState"]) == ("1", "Ongoing")
    pattern = tools.table("TransactionsCommand", "list", "--transactional-id-pattern", f"{opened}|no-such")
    assert [row["TransactionalId"] for row in pattern] == [opened]
    assert tools.table("TransactionsCommand", "list", "--transactional-id-pattern", "no-such.*") == []
    # Kafka includes ids that never had a transaction: their start time counts as infinitely long ago.
    long_ones = tools.table("TransactionsCommand", "list", "--duration-filter", 3_600_000)
    assert opened not in {row["TransactionalId"] for row in long_ones}

    described = describe(tools, opened)
    assert described["ProducerId"] == row["ProducerId"]
    assert (described["TransactionState"], described["TransactionTimeoutMs"]) == ("Ongoing", "600000")
    assert sorted(described["TopicPartitions"].split(",")) == [f"{topic}-0", f"{topic}-1"]
    no_such = tools.refused("TransactionsCommand", "describe", "--transactional-id", "no-such")
    assert "the ID could not be found" in no_such


def test_the_producers_of_a_partition_are_described(tools, topic, opened):
    described = describe(tools, opened)
    # A record, its commit marker, and then the open transaction.
    for number, begin, last_sequence in ((0, "2", "2"), (1, "0", "0")):
        (row,) = producers(tools, topic, number)
        assert (row["ProducerId"], row["ProducerEpoch"]) == (described["ProducerId"], described["ProducerEpoch"])
        assert (row["CurrentTransactionStartOffset"], row["LastSequence"]) == (begin, last_sequence)


def test_a_transaction_is_aborted_in_one_partition(tools, topic, opened):
    abort = ("TransactionsCommand", "abort", "--topic", topic, "--partition", 0, "--start-offset")
    assert "Could not find any open transactions starting at offset 1" in tools.refused(*abort, 1)
    tools.run(*abort, 2)
    (row,) = producers(tools, topic, 0)
    assert row["CurrentTransactionStartOffset"] == "None"
    (other,) = producers(tools, topic, 1)
    assert other["CurrentTransactionStartOffset"] == "0"
    read = ("--partition", 0, "--offset", "earliest", "--isolation-level", "read_committed", "--timeout-ms", 2000)
    assert tools.run("ConsoleConsumer", "--topic", topic, *read).lines == ["committed"]


def test_a_transactional_id_is_terminated_by_force(tools, broker, topic, opened):
    before = describe(tools, opened)
    tools.run("TransactionsCommand", "forceTerminateTransaction", "--transactionalId", opened)
    after = describe(tools, opened)
    assert after["TransactionState"] in ("Empty", "CompleteAbort")
    assert int(after["ProducerEpoch"]) > int(before["ProducerEpoch"])
    for number in range(2):
        assert {row["CurrentTransactionStartOffset"] for row in producers(tools, topic, number)} == {"None"}
    assert committed_values(broker, topic) == [b"committed"]


def test_a_transaction_that_its_coordinator_knows_is_not_reported_as_hanging(tools, topic, opened):
    for place in (("--broker-id", 1), ("--topic", topic, "--partition", 0)):
        assert tools.table("TransactionsCommand", "find-hanging", *place, "--max-transaction-timeout", 0) == []
