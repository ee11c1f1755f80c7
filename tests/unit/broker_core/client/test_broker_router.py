import socket
import threading
import time

import pytest
from kio.schema.errors import ErrorCode
from support.brokers.scripted_broker import CLOSE, SILENCE, ScriptedBroker, offsets_answer

from broker_core.model.exceptions import (
    BrokerUnavailableError,
    RemoteError,
    RequestTimedOutError,
    UnknownPartitionError,
    UnknownTopicError,
)
from broker_core.model.identifiers import OffsetSpec, TopicPartition
from broker_core.protocol.api_table import ApiKey

T0 = TopicPartition("t", 0)


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.fixture
def broker():
    with ScriptedBroker() as scripted:
        scripted.topics["t"] = 1
        yield scripted


def latest(client, partition=T0):
    return client.list_offsets({partition: OffsetSpec.LATEST})[partition].offset


def test_one_reachable_bootstrap_address_is_enough(broker):
    broker.script(ApiKey.LIST_OFFSETS, offsets_answer(("t", 0, 5)))
    client = broker.client(bootstrap__servers=f"127.0.0.1:{closed_port()},{broker.address}")
    assert latest(client) == 5


def test_the_error_lists_all_unreachable_addresses():
    ports = closed_port(), closed_port()
    with ScriptedBroker() as broker:
        client = broker.client(
            bootstrap__servers=",".join(f"127.0.0.1:{port}" for port in ports), default__api__timeout__ms=50
        )
    with pytest.raises(BrokerUnavailableError) as caught:
        client.bounds(T0)
    assert all(str(port) in caught.value.message for port in ports)
    assert "Connection refused" in caught.value.message
    assert "default.api.timeout.ms" in caught.value.message


def test_a_broken_connection_is_recreated(broker):
    broker.script(ApiKey.LIST_OFFSETS, CLOSE, offsets_answer(("t", 0, 7)))
    assert latest(broker.client()) == 7
    assert broker.connection_count == 2


def test_a_connection_closed_by_the_broker_is_not_reused(broker):
    broker.script(ApiKey.LIST_OFFSETS, offsets_answer(("t", 0, 7)))
    client = broker.client()
    latest(client)
    broker.hang_up()
    time.sleep(0.05)
    began = len(broker.requests)
    assert latest(client) == 7
    assert [request.api_key for request in broker.requests[began:]] == [ApiKey.API_VERSIONS, ApiKey.LIST_OFFSETS]


def test_a_retriable_error_is_retried_with_fresh_metadata(broker):
    moved = offsets_answer(("t", 0, -1, -1, ErrorCode.not_leader_or_follower))
    broker.script(ApiKey.LIST_OFFSETS, moved, moved, offsets_answer(("t", 0, 9)))
    assert latest(broker.client()) == 9
    assert len(broker.asked(ApiKey.METADATA)) >= 3


def test_requests_go_to_the_partitions_leader(broker):
    with ScriptedBroker(node_id=2) as other:
        broker.nodes[2] = ("127.0.0.1", other.port)
        broker.leaders["t", 0] = 2
        other.script(ApiKey.LIST_OFFSETS, offsets_answer(("t", 0, 3)))
        assert latest(broker.client()) == 3
        assert broker.asked(ApiKey.LIST_OFFSETS) == []


def test_a_leader_that_moves_is_followed(broker):
    with ScriptedBroker(node_id=2) as other:
        other.topics["t"] = 1
        other.nodes[1] = ("127.0.0.1", broker.port)
        broker.nodes[2] = ("127.0.0.1", other.port)
        other.script(ApiKey.LIST_OFFSETS, offsets_answer(("t", 0, 3)))

        def move(request):
            broker.leaders["t", 0] = 2
            return offsets_answer(("t", 0, -1, -1, ErrorCode.not_leader_or_follower))

        broker.script(ApiKey.LIST_OFFSETS, move)
        assert latest(broker.client()) == 3


def test_the_error_for_an_unreachable_leader_names_its_advertised_address(broker):
    port = closed_port()
    broker.nodes[2] = ("127.0.0.1", port)
    broker.leaders["t", 0] = 2
    with pytest.raises(BrokerUnavailableError, match=rf"127.0.0.1:{port} cannot be reached.*advertised.listeners"):
        latest(broker.client(default__api__timeout__ms=1000))


def test_a_request_to_a_partition_without_a_leader_is_retried(broker):
    broker.leaders["t", 0] = -1
    broker.script(ApiKey.LIST_OFFSETS, offsets_answer(("t", 0, 3)))
    threading.Timer(0.1, broker.leaders.clear).start()
    assert latest(broker.client()) == 3


def test_a_missing_topic_fails_immediately(broker):
    client = broker.client(default__api__timeout__ms=60_000)
    began = time.monotonic()
    with pytest.raises(UnknownTopicError, match="Topic 'nope' does not exist"):
        client.bounds(TopicPartition("nope", 0))
    with pytest.raises(UnknownPartitionError, match="Topic 't' has no partition 5: it has 1"):
        client.bounds(TopicPartition("t", 5))
    with pytest.raises(UnknownPartitionError):
        client.bounds(TopicPartition("t", -1))
    assert time.monotonic() - began < 30


def test_a_new_partition_is_found_without_waiting(broker):
    broker.script(ApiKey.LIST_OFFSETS, offsets_answer(("t", 0, 1)))
    client = broker.client()
    latest(client)
    broker.topics["t"] = 2
    broker.script(ApiKey.LIST_OFFSETS, offsets_answer(("t", 1, 8)))
    assert latest(client, TopicPartition("t", 1)) == 8


def test_a_deleted_topic_is_detected_by_its_leaders_refusal(broker):
    broker.script(ApiKey.LIST_OFFSETS, offsets_answer(("t", 0, 1)))
    client = broker.client()
    latest(client)
    del broker.topics["t"]
    broker.script(ApiKey.LIST_OFFSETS, offsets_answer(("t", 0, -1, -1, ErrorCode.unknown_topic_or_partition)))
    with pytest.raises(UnknownTopicError):
        latest(client)


def test_a_request_ends_with_request_timeout_ms_and_the_call_with_its_own_timeout(broker):
    broker.script(ApiKey.LIST_OFFSETS, SILENCE)
    began = time.monotonic()
    with pytest.raises(
        RequestTimedOutError, match=r"not completed within 1200 ms \(default.api.timeout.ms\)"
    ) as caught:
        latest(broker.client(request__timeout__ms=400, default__api__timeout__ms=1200))
    assert "did not answer within 400 ms (request.timeout.ms)" in caught.value.message
    assert time.monotonic() - began < 15


def test_a_late_response_is_never_taken_for_another_one(broker):
    def late(request):
        time.sleep(1)
        return offsets_answer(("t", 0, 1))

    broker.script(ApiKey.LIST_OFFSETS, late, offsets_answer(("t", 0, 2)))
    assert latest(broker.client(request__timeout__ms=500)) == 2
    assert broker.connection_count == 2


def test_a_closed_client_fails_immediately(broker):
    client = broker.client(default__api__timeout__ms=60_000)
    client.close()
    client.close()
    with pytest.raises(RemoteError, match="was closed"):
        client.bounds(T0)


def test_threads_may_share_a_client(broker):
    broker.script(ApiKey.LIST_OFFSETS, lambda request: offsets_answer(("t", 0, 4)))
    client, found = broker.client(), []
    threads = [threading.Thread(target=lambda: found.append(latest(client))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [4] * 8
    assert broker.connection_count == 1
