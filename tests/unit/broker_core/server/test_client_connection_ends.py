"""How connections end, without TLS and with it: asyncio's TLS has a shutdown of its own that can be kept waiting."""

import logging
import socket
import ssl
import struct
from pathlib import Path

import pytest
from support.brokers.small_broker import RawClient, SmallBroker, until, versions

from broker_core.protocol.api_table import ApiKey
from broker_core.server.client_connection import ClientConnection

TLS = Path(__file__).parents[3] / "golden" / "tls"
NO_SIZE = struct.pack(">i", -1)
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="s3cret";'
BEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}


def a_broker(listener, **settings):
    listeners = f"{listener}://127.0.0.1:0"
    if listener != "PLAINTEXT":
        listeners += ",PLAINTEXT://127.0.0.1:0"
    return SmallBroker(listeners=listeners, ssl__keystore__location=TLS / "broker.pem", **settings)


def a_client(broker, listener, *, receive_buffer_bytes=None):
    plain = socket.socket()
    if receive_buffer_bytes is not None:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    plain.settimeout(20)
    plain.connect(("127.0.0.1", broker.ports[listener]))
    if not listener.endswith("SSL"):
        return RawClient(broker.port, plain)
    context = ssl.create_default_context(cafile=TLS / "authority.pem")
    return RawClient(broker.port, context.wrap_socket(plain, server_hostname="localhost"))


def connection_count(broker):
    return broker.call(lambda: len(broker.server.connections))


@pytest.fixture(params=["PLAINTEXT", "SSL"])
def listener(request):
    return request.param


def test_a_client_that_disconnects_after_an_error_is_released_despite_a_parked_request(listener, caplog):
    with a_broker(listener) as broker:
        with a_client(broker, listener) as client:
            client.socket.sendall(client.encode(ApiKey.HEARTBEAT, 0, **BEAT) + NO_SIZE)
            until(lambda: any("-1 bytes" in record.getMessage() for record in caplog.records))
            assert connection_count(broker) == 1
        until(lambda: connection_count(broker) == 0)
        assert len(broker.node.parked) == 1, "it was answered meanwhile"


def test_a_client_that_disconnects_before_its_login_is_refused_is_released(caplog):
    listener = "SASL_SSL"
    settings = {"sasl__enabled__mechanisms": "PLAIN", "listener.name.sasl_ssl.plain.sasl.jaas.config": JAAS}
    with a_broker(listener, **settings) as broker:
        with a_client(broker, listener) as client:
            client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
            client.send(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=b"\0ann\0guess")
            until(lambda: any("login" in record.getMessage() for record in caplog.records))
        until(lambda: connection_count(broker) == 0)


def test_a_client_that_stays_after_an_error_does_not_delay_the_stop(listener):
    with a_broker(listener) as broker, a_client(broker, listener) as client:
        client.socket.sendall(NO_SIZE)
        assert client.is_hung_up_on()
        broker.thread.stop()
        assert len(broker.server.connections) == 0


def test_responses_before_an_error_are_sent_whole_while_the_client_keeps_sending(listener):
    with a_broker(listener, socket__send__buffer__bytes=5000) as broker:
        broker.node.answer_bytes = 800_000
        with a_client(broker, listener, receive_buffer_bytes=4096) as client:
            asked = client.encode(ApiKey.METADATA, 9, topics=())
            client.socket.sendall(asked + NO_SIZE + bytes(100_000))
            assert len(client.receive().cluster_id) == 800_000


def test_an_idle_connection_is_closed_after_a_large_last_response(listener):
    with a_broker(listener, connections__max__idle__ms=300, socket__send__buffer__bytes=5000) as broker:
        broker.node.answer_bytes = 800_000
        with a_client(broker, listener, receive_buffer_bytes=4096) as client, broker.connect("PLAINTEXT") as silent:
            client.socket.sendall(client.encode(ApiKey.METADATA, 9, topics=()) + NO_SIZE)
            assert len(client.receive().cluster_id) == 800_000
            assert silent.is_hung_up_on()
            with broker.connect("PLAINTEXT") as later:
                versions(later)
                assert later.is_hung_up_on()


def test_a_connection_whose_idle_check_fails_is_closed_and_the_others_are_checked(monkeypatch, caplog):
    looked_at = []
    look = ClientConnection.look_at_writing

    def broken_for_the_first(self):
        looked_at.append(self)
        if self is looked_at[0]:
            raise RuntimeError("a mistake of ours")
        look(self)

    with (
        a_broker("PLAINTEXT", connections__max__idle__ms=200) as broker,
        broker.connect() as first,
        broker.connect() as second,
        caplog.at_level(logging.INFO),
    ):
        until(lambda: connection_count(broker) == 2)
        monkeypatch.setattr(ClientConnection, "look_at_writing", broken_for_the_first)
        assert first.is_hung_up_on()
        assert second.is_hung_up_on()
    lines = [record.getMessage() for record in caplog.records]
    assert sum("the idle check failed" in line for line in lines) == 1
    assert sum("connections.max.idle.ms" in line for line in lines) == 1
