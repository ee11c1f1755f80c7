import os
import threading

import pytest
from support.brokers.scripted_broker import ScriptedBroker, offsets_answer

from broker_core.client.connection_pool import ConnectionPool
from broker_core.client.deadline import Deadline
from broker_core.model.client_settings import BrokerAddress, parse_client_settings
from broker_core.model.exceptions import BrokerUnavailableError, RemoteError
from broker_core.model.identifiers import OffsetSpec, TopicPartition
from broker_core.protocol.api_table import ApiKey

T0 = TopicPartition("t", 0)


@pytest.fixture
def broker():
    with ScriptedBroker() as scripted:
        yield scripted


@pytest.fixture
def pool(broker):
    made = ConnectionPool(parse_client_settings({"bootstrap.servers": broker.address}))
    yield made
    made.close()


def take(pool, broker):
    return pool.connection(BrokerAddress(host="127.0.0.1", port=broker.port), Deadline(2000, setting="x"))


def test_a_broker_has_one_connection(pool, broker):
    assert take(pool, broker) is take(pool, broker)
    assert [str(address) for address in pool.connected()] == [broker.address]


def test_concurrent_threads_share_one_connection(pool, broker):
    found = []
    threads = [threading.Thread(target=lambda: found.append(take(pool, broker))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert broker.connection_count == 1


def test_a_broken_connection_is_replaced(pool, broker):
    first = take(pool, broker)
    first.close()
    assert take(pool, broker) is not first


def test_closing_the_pool_closes_its_connections(pool, broker):
    connection = take(pool, broker)
    pool.close()
    pool.close()
    assert not connection.is_usable
    with pytest.raises(RemoteError, match="was closed"):
        take(pool, broker)


def test_a_forked_child_opens_its_own_connections(broker):
    broker.topics["t"] = 1
    broker.script(ApiKey.LIST_OFFSETS, lambda request: offsets_answer(("t", 0, 6)))
    client = broker.client()
    client.bounds(T0)
    child = os.fork()
    if child == 0:
        found = client.list_offsets({T0: OffsetSpec.LATEST})[T0].offset
        client.close()
        os._exit(found)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 6
    assert broker.connection_count == 2
    assert client.list_offsets({T0: OffsetSpec.LATEST})[T0].offset == 6
    assert broker.connection_count == 2


def test_a_connection_to_a_stopped_broker_fails(pool, broker):
    broker.stop()
    with pytest.raises(BrokerUnavailableError):
        take(pool, broker)
