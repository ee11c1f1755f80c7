"""kafka-transactions.sh finds transactions that their coordinator does not know any more, and aborts them.

Here the broker lost the log of its coordinator, so only this tool can end them.
"""

import shutil
import time

import pytest
from support.brokers.java_tool_host import BrokerTools
from support.brokers.real_kafka import RealKafka
from support.brokers.served_broker import ServedBroker
from support.clients.confluent_clients import a_producer, committed_values, make_topic, send

HOUR_MS = 3_600_000


@pytest.fixture
def forgetful(host, is_real, tmp_path):
    running = (RealKafka if is_real else ServedBroker)(tmp_path / "node")
    yield running
    running.stop()


def test_a_hanging_transaction_is_found_and_aborted(host, forgetful):
    topic = make_topic(forgetful)
    producer = a_producer(forgetful, transactional__id="forgotten", transaction__timeout__ms=900_000)
    producer.init_transactions(30)
    producer.begin_transaction()
    hours_ago = int(time.time() * 1000) - 3 * HOUR_MS
    send(producer, topic, [{"value": b"open", "timestamp": hours_ago}])
    del producer
    forgetful.stop()
    for folder in (forgetful.folder / "data").glob("__transaction_state-*"):
        shutil.rmtree(folder)
    forgetful.start()

    tools = BrokerTools(host, forgetful.bootstrap())
    (row,) = tools.table("TransactionsCommand", "find-hanging", "--broker-id", 1)
    assert (row["Topic"], row["Partition"], row["StartOffset"]) == (topic, "0", "0")
    assert 170 < int(row["Duration(min)"]) < 200
    tools.run("TransactionsCommand", "abort", "--topic", topic, "--partition", 0, "--start-offset", 0)
    assert tools.table("TransactionsCommand", "find-hanging", "--broker-id", 1) == []
    send(a_producer(forgetful), topic, [b"seen"])
    assert committed_values(forgetful, topic) == [b"seen"]
