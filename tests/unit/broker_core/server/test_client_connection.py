"""Real sockets against a server with a small node behind it."""

import logging
import socket
import ssl
import struct
import threading
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from kio.schema.errors import ErrorCode
from support.brokers.small_broker import RawClient, SmallBroker, frame, until, versions

from broker_core.model.limits import MAX_CONNECTION_REQUEST_COUNT, MAX_TURN_REQUEST_COUNT
from broker_core.protocol.api_table import ApiKey
from broker_core.protocol.frame import SCRATCH_BYTES
from broker_core.protocol.served_versions import SERVED_VERSIONS
from broker_core.server.client_connection import ClientConnection

BEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}


@pytest.fixture(scope="module")
def broker():
    with SmallBroker() as small:
        yield small


@pytest.fixture
def client(broker):
    broker.node.asked.clear()
    broker.node.parked.clear()
    with broker.connect() as one:
        yield one


def is_well(broker):
    with broker.connect() as other:
        return len(versions(other).api_keys) == len(SERVED_VERSIONS)


def test_a_request_is_answered(client):
    assert len(versions(client).api_keys) == len(SERVED_VERSIONS)


def test_a_frame_may_arrive_in_pieces(client):
    for byte in client.encode(ApiKey.API_VERSIONS, 0):
        client.socket.sendall(bytes([byte]))
    assert client.receive().error_code == 0


def test_two_requests_may_arrive_in_one_segment(client):
    client.socket.sendall(client.encode(ApiKey.API_VERSIONS, 0) + client.encode(ApiKey.METADATA, 8, topics=()))
    assert client.receive().api_keys
    assert client.receive().cluster_id == "x" * 10


def test_received_requests_are_handled_in_one_turn(client, broker, monkeypatch):
    received = []
    update = ClientConnection.buffer_updated
    monkeypatch.setattr(
        ClientConnection, "buffer_updated", lambda self, count: received.append(count) or update(self, count)
    )
    topics = [{"name": f"topic-{number:09}"} for number in range(1_700)]
    requests = [client.encode(ApiKey.METADATA, 1, topics=topics) for _ in range(3)]
    blocked, sent = threading.Event(), threading.Event()

    def block():
        blocked.set()
        sent.wait(20)

    broker.server._loop.call_soon_threadsafe(block)
    assert blocked.wait(20)
    client.socket.sendall(b"".join(requests))
    time.sleep(0.05)
    sent.set()
    for _ in requests:
        client.receive()
    assert sum(map(len, requests)) > received[0] == SCRATCH_BYTES
    assert len(received) == 1, "all of them came with what asyncio received first"


def test_a_slow_client_gets_its_last_response_whole_before_the_close(caplog):
    with SmallBroker(socket__send__buffer__bytes=5000) as broker, broker.connect() as client:
        broker.node.answer_bytes = 1_000_000
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
        client.send(ApiKey.METADATA, 9, topics=())
        until(lambda: broker.call(lambda: broker.server.memory.held_bytes) > 0)
        client.socket.sendall(struct.pack(">i", -5))
        until(lambda: any("-5 bytes" in record.getMessage() for record in caplog.records))
        assert broker.call(lambda: broker.server.memory.held_bytes) > 0
        assert len(client.receive().cluster_id) == 1_000_000
        assert client.is_hung_up_on()
        until(lambda: broker.call(lambda: len(broker.server.connections)) == 0)
    assert [record for record in caplog.records if record.name == "asyncio"] == []


def test_a_client_that_disconnects_before_a_large_response_holds_no_memory(caplog):
    with SmallBroker() as broker:
        broker.node.answer_bytes = 20_000_000
        for _ in range(5):
            with broker.connect() as client:
                client.send(ApiKey.METADATA, 9, topics=())
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        until(lambda: len(broker.node.asked) == 5)
        until(lambda: broker.call(lambda: len(broker.server.connections)) == 0)
        assert broker.call(lambda: broker.server.memory.held_bytes) == 0
    assert [record for record in caplog.records if record.name == "asyncio"] == []


def test_a_request_larger_than_the_receive_buffer_arrives_whole(client, broker):
    client.ask(ApiKey.METADATA, 1, topics=[{"name": f"topic-{number:09}"} for number in range(5_000)])
    assert len(broker.node.asked[-1].message.topics) == 5_000


def test_responses_are_sent_in_the_order_of_the_requests(client, broker):
    client.send(ApiKey.HEARTBEAT, 0, **BEAT)
    client.send(ApiKey.METADATA, 8, topics=())
    client.send(ApiKey.HEARTBEAT, 0, **BEAT)
    client.send(ApiKey.API_VERSIONS, 0)
    until(lambda: len(broker.node.asked) == 4)
    broker.answer(1)
    client.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.receive()
    client.socket.settimeout(20)
    broker.answer()
    kinds = [type(client.receive()).__name__ for _ in range(4)]
    assert kinds == ["HeartbeatResponse", "MetadataResponse", "HeartbeatResponse", "ApiVersionsResponse"]


def answer_and_throttle(broker, throttle_ms):
    """The first parked request, as if its client were beyond a quota."""
    call = broker.node.parked.pop(0)
    call.meter = SimpleNamespace(on_answer=lambda message: throttle_ms)
    broker.call(lambda: call.respond(error_code=ErrorCode.none))


def test_a_throttled_client_is_answered_at_once_and_not_read_from_until_the_time_is_over(broker, client):
    client.send(ApiKey.HEARTBEAT, 1, **BEAT)
    until(lambda: broker.node.parked)
    begun = time.monotonic()
    answer_and_throttle(broker, 200)
    assert client.receive().throttle_time == timedelta(milliseconds=200)
    client.send(ApiKey.METADATA, 8, topics=())
    assert is_well(broker)
    client.receive()
    assert time.monotonic() - begun >= 0.2


def test_a_shorter_throttle_time_does_not_end_a_longer_one(broker, client):
    client.socket.sendall(b"".join(client.encode(ApiKey.HEARTBEAT, 1, **BEAT) for _ in range(2)))
    until(lambda: len(broker.node.parked) == 2)
    begun = time.monotonic()
    answer_and_throttle(broker, 300)
    answer_and_throttle(broker, 10)
    client.send(ApiKey.METADATA, 8, topics=())
    for _ in range(3):
        client.receive()
    assert time.monotonic() - begun >= 0.3


def test_a_throttled_client_that_is_closed_leaves_nothing_behind(broker, client):
    client.send(ApiKey.HEARTBEAT, 1, **BEAT)
    until(lambda: broker.node.parked)
    answer_and_throttle(broker, 60_000)
    client.receive()
    broker.call(lambda: [connection.abort() for connection in broker.server.connections])
    assert client.socket.recv(1) == b""
    until(lambda: len(broker.server.connections) == 0)


def test_the_requests_in_progress_of_a_connection_are_bounded(client, broker):
    count = MAX_CONNECTION_REQUEST_COUNT + 5
    client.socket.sendall(b"".join(client.encode(ApiKey.HEARTBEAT, 0, **BEAT) for _ in range(count)))
    until(lambda: len(broker.node.parked) == MAX_CONNECTION_REQUEST_COUNT)
    assert is_well(broker)
    assert len(broker.node.parked) == MAX_CONNECTION_REQUEST_COUNT
    for _ in range(count):
        until(lambda: broker.node.parked)
        broker.answer()
        client.receive()


def test_more_requests_than_fit_one_turn_are_all_answered(client):
    count = 5 * MAX_TURN_REQUEST_COUNT + 1
    client.socket.sendall(b"".join(client.encode(ApiKey.API_VERSIONS, 0) for _ in range(count)))
    assert all(client.receive().api_keys for _ in range(count))


def test_a_newer_api_versions_is_answered_in_the_oldest_version(client):
    client.encode(ApiKey.API_VERSIONS, 0)
    client.socket.sendall(frame(struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 0, -1)))
    answer = client.receive()
    assert (answer.error_code, len(answer.api_keys)) == (35, len(SERVED_VERSIONS))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP request to a Kafka port"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), "the peer uses TLS, but this side does not"),
        (b"\xff" * 100, "a message of -1 bytes was announced"),
        (
            struct.pack(">i", 104_857_601),
            "a message of 104857601 bytes was announced, but at most 104857600 are allowed",
        ),
        (frame(b"abc"), "too short for a header"),
        (frame(struct.pack(">hhih", 18, 0, 1, 5) + b"ab"), ""),
        (frame(struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", 2**31 - 1)), ""),
    ],
    ids=["http", "tls", "garbage", "too large", "no header", "cut off", "array too long"],
)
def test_bytes_that_are_not_the_protocol_close_the_connection_with_a_logged_reason(
    broker, client, data, reason, caplog
):
    with broker.connect() as good, caplog.at_level(logging.WARNING):
        versions(good)
        client.socket.sendall(data)
        assert client.is_hung_up_on()
        assert versions(good).api_keys
    port = client.socket.getsockname()[1]
    lines = [record.getMessage() for record in caplog.records if f"127.0.0.1:{port}" in record.getMessage()]
    assert len(lines) == 1
    assert "listener=PLAINTEXT" in lines[0]
    assert reason in lines[0]


ENDS = {
    "negative size": struct.pack(">i", -1),
    "size too large": struct.pack(">i", 104_857_601),
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "empty": struct.pack(">i", 0),
    "too short for a header": frame(bytes(7)),
    "client id cut off": frame(struct.pack(">hhih", 3, 1, 9, 5) + b"ab"),
    "array too long": frame(struct.pack(">hhih", 3, 1, 9, -1) + struct.pack(">i", 2**31 - 1)),
}
"""A Kafka 4.3.1, asked over a socket with each of these behind two good requests, behind a produce that waits for its
append, and behind a fetch that waits for data and a request after it: answered every request before it, in order, and
closed the connection. Nothing behind it was answered."""


def lines_about(client, caplog):
    port = client.socket.getsockname()[1]
    return [record.getMessage() for record in caplog.records if f"127.0.0.1:{port}" in record.getMessage()]


def is_silent(client):
    client.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.receive()
    client.socket.settimeout(20)
    return True


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_requests_before_a_protocol_error_are_answered(broker, client, end, caplog):
    good = client.encode(ApiKey.API_VERSIONS, 0) + client.encode(ApiKey.METADATA, 8, topics=())
    client.socket.sendall(good + end + good)
    assert client.receive().api_keys
    assert client.receive().cluster_id
    assert client.socket.recv(1) == b""
    assert len(lines_about(client, caplog)) == 1
    assert len(broker.node.asked) == 2


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_late_responses_are_sent_before_the_close(broker, client, end, caplog):
    late = client.encode(ApiKey.HEARTBEAT, 0, **BEAT)
    client.socket.sendall(late + client.encode(ApiKey.API_VERSIONS, 0) + end + late)
    until(lambda: lines_about(client, caplog))
    assert is_silent(client)
    assert len(broker.node.asked) == 2
    broker.answer()
    assert type(client.receive()).__name__ == "HeartbeatResponse"
    assert client.receive().api_keys
    assert client.socket.recv(1) == b""
    assert len(lines_about(client, caplog)) == 1


def test_an_invalid_size_may_arrive_in_pieces_and_after_requests(broker, client, caplog):
    client.send(ApiKey.HEARTBEAT, 0, **BEAT)
    until(lambda: broker.node.parked)
    for byte in struct.pack(">i", -7):
        client.socket.sendall(bytes([byte]))
        time.sleep(0.005)
    until(lambda: lines_about(client, caplog))
    broker.answer()
    assert type(client.receive()).__name__ == "HeartbeatResponse"
    assert client.socket.recv(1) == b""
    assert len(lines_about(client, caplog)) == 1


def test_with_tls_requests_before_a_protocol_error_are_answered():
    tls = Path(__file__).parents[3] / "golden" / "tls"
    context = ssl.create_default_context(cafile=tls / "authority.pem")
    with SmallBroker(listeners="SSL://127.0.0.1:0", ssl__keystore__location=tls / "broker.pem") as broker:
        plain = socket.create_connection(("127.0.0.1", broker.port), timeout=20)
        with RawClient(broker.port, context.wrap_socket(plain, server_hostname="localhost")) as client:
            late = client.encode(ApiKey.HEARTBEAT, 0, **BEAT)
            client.socket.sendall(late + client.encode(ApiKey.API_VERSIONS, 0) + ENDS["negative size"])
            until(lambda: len(broker.node.asked) == 2)
            broker.answer()
            assert type(client.receive()).__name__ == "HeartbeatResponse"
            assert client.receive().api_keys
            assert client.socket.recv(1) == b""


def test_a_login_before_an_invalid_size_is_answered_before_the_close():
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="s3cret";'
    with (
        SmallBroker(
            listeners="SASL_PLAINTEXT://127.0.0.1:0",
            sasl__enabled__mechanisms="PLAIN",
            **{"listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas},
        ) as broker,
        broker.connect() as client,
    ):
        client.socket.sendall(client.encode(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN") + ENDS["negative size"])
        assert client.receive().mechanisms == ("PLAIN",)
        assert client.socket.recv(1) == b""


def test_queued_requests_before_a_protocol_error_are_all_answered(broker, client):
    count = MAX_CONNECTION_REQUEST_COUNT + 3 * MAX_TURN_REQUEST_COUNT
    requests = [client.encode(ApiKey.HEARTBEAT, 0, **BEAT) for _ in range(MAX_CONNECTION_REQUEST_COUNT)]
    requests += [client.encode(ApiKey.API_VERSIONS, 0) for _ in range(count - len(requests))]
    client.socket.sendall(b"".join(requests) + ENDS["negative size"])
    for _ in range(MAX_CONNECTION_REQUEST_COUNT):
        until(lambda: broker.node.parked)
        broker.answer()
        client.receive()
    assert all(client.receive().api_keys for _ in range(count - MAX_CONNECTION_REQUEST_COUNT))
    assert client.socket.recv(1) == b""


def test_requests_before_a_handler_bug_are_answered(broker, client):
    client.send(ApiKey.HEARTBEAT, 0, **BEAT)
    client.send(ApiKey.FIND_COORDINATOR, 0, key="g")
    until(lambda: len(broker.node.asked) == 2)
    broker.answer()
    assert type(client.receive()).__name__ == "HeartbeatResponse"
    assert client.socket.recv(1) == b""


def test_a_handler_bug_closes_only_its_connection(broker, client, caplog):
    client.send(ApiKey.FIND_COORDINATOR, 0, key="g")
    assert client.is_hung_up_on()
    assert is_well(broker)
    assert any(record.exc_info for record in caplog.records)


def test_responses_to_a_closed_connection_are_dropped(broker, client):
    client.send(ApiKey.HEARTBEAT, 0, **BEAT)
    until(lambda: broker.node.parked)
    client.close()
    until(lambda: broker.call(lambda: len(broker.server.connections)) == 0)
    broker.answer()
    assert is_well(broker)


def test_the_peer_is_known_by_its_address_and_listener(broker, client):
    versions(client)
    peer = broker.node.asked[-1].peer
    assert (peer.client_host, peer.client_port) == ("127.0.0.1", client.socket.getsockname()[1])
    assert (peer.listener, peer.principal) == ("PLAINTEXT", "User:ANONYMOUS")


def test_a_client_that_does_not_read_responses_is_not_read_from(broker, client):
    broker.node.answer_bytes = 2_000_000
    try:
        for _ in range(50):
            client.send(ApiKey.METADATA, 9, topics=())
        until(lambda: broker.call(lambda: broker.server.memory.held_bytes) > 0)
        assert is_well(broker)
        taken = len([call for call in broker.node.asked if call.api_key == ApiKey.METADATA])
        assert taken < 10
        assert [len(client.receive().cluster_id) for _ in range(50)] == [2_000_000] * 50
    finally:
        broker.node.answer_bytes = 10
    until(lambda: broker.call(lambda: broker.server.memory.held_bytes) == 0)


def test_an_unsent_response_is_sent_before_the_connection_closes(broker, client):
    broker.node.answer_bytes = 20_000_000
    try:
        client.send(ApiKey.METADATA, 9, topics=())
        until(lambda: broker.call(lambda: broker.server.memory.held_bytes) > 0)
        broker.call(lambda: [one.close() for one in broker.server.connections])
        assert len(client.receive().cluster_id) == 20_000_000
        assert client.is_hung_up_on()
    finally:
        broker.node.answer_bytes = 10
    until(lambda: broker.call(lambda: broker.server.memory.held_bytes) == 0)


def test_while_the_node_is_full_no_connection_is_read(broker, client):
    broker.call(lambda: setattr(broker.node, "is_full", True))
    client.send(ApiKey.API_VERSIONS, 0)
    client.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.receive()
    client.socket.settimeout(20)

    def done():
        broker.node.is_full = False

    broker.call(lambda: broker.node.ports.jobs.submit(done, lambda _: None, lambda _: None))
    assert client.receive().api_keys


def test_a_tls_client_at_a_plaintext_port_gets_an_error_and_does_not_hang(client):
    context = ssl.create_default_context()
    with pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(client.socket, server_hostname="localhost")


def test_the_node_is_notified_of_a_closed_connection(broker):
    with broker.connect() as other:
        other.send(ApiKey.HEARTBEAT, 0, **BEAT)
        until(lambda: broker.node.parked)
        connection_id = broker.node.parked[-1].peer.connection_id
    until(lambda: connection_id in broker.node.forgotten)


def test_a_response_that_cannot_be_encoded_closes_its_connection_without_blocking_others(broker, client):
    client.send(ApiKey.HEARTBEAT, 0, **BEAT)
    client.send(ApiKey.API_VERSIONS, 0)
    until(lambda: len(broker.node.parked) == 1)
    broker.call(lambda: broker.node.parked.pop().respond(error_code=70_000))
    with pytest.raises((ConnectionError, AssertionError)):
        client.receive()
    assert is_well(broker)
