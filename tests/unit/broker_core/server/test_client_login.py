"""Logins over a real socket, by our own client and by bytes."""

import logging
import struct
import time

import pytest
from support.brokers.small_broker import SmallBroker, frame, versions

from broker_core.client.broker_connection import BrokerConnection
from broker_core.client.deadline import Deadline
from broker_core.metadata.scram_credentials import ScramCredentials
from broker_core.model.client_settings import BrokerAddress, parse_client_settings
from broker_core.model.exceptions import AuthenticationError
from broker_core.protocol.api_table import ApiKey

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="s3cret";'
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl__enabled__mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
    "connection__failed__authentication__delay__ms": 30,
}


class _Image:
    scram_credentials = ScramCredentials()


class _Topics:
    image = _Image()


@pytest.fixture
def broker():
    with SmallBroker(**SETTINGS) as small:
        small.node.topics = _Topics()
        yield small


def log_in(broker, password="s3cret", mechanism="PLAIN"):
    settings = parse_client_settings(
        {
            "bootstrap.servers": f"127.0.0.1:{broker.port}", "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism, "sasl.username": "ann", "sasl.password": password,
        }
    )  # fmt: skip
    deadline = Deadline(20_000, setting="x")
    return BrokerConnection(BrokerAddress(host="127.0.0.1", port=broker.port), settings, deadline)


def test_a_login_sets_the_principal(broker):
    connection = log_in(broker)
    with broker.connect() as other:
        versions(other)
    assert connection.is_usable
    connection.close()


def test_a_wrong_password_is_refused_after_the_delay_and_closes_the_connection(broker, caplog):
    begun = time.monotonic()
    with pytest.raises(AuthenticationError):
        log_in(broker, password="wrong")
    assert time.monotonic() - begun >= 0.03
    assert "login: authentication of 'ann' with PLAIN refused" in caplog.text
    assert "wrong" not in caplog.text


def test_an_unknown_user_of_scram_is_refused(broker):
    with pytest.raises(AuthenticationError):
        log_in(broker, mechanism="SCRAM-SHA-256")


def test_raw_and_wrapped_tokens_log_in(broker):
    with broker.connect() as client:
        assert versions(client).api_keys
        assert client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").mechanisms == ("PLAIN", "SCRAM-SHA-256")
        assert client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0ann\0s3cret").error_code == 0
        client.ask(ApiKey.METADATA, 8, topics=())
        assert broker.node.asked[-1].principal == "User:ann"
    with broker.connect() as client:
        client.ask(ApiKey.SASL_HANDSHAKE, 0, mechanism="PLAIN")
        client.socket.sendall(frame(b"\0ann\0s3cret"))
        assert client.socket.recv(4) == b"\0\0\0\0"
        client.ask(ApiKey.METADATA, 8, topics=())
        assert broker.node.asked[-1].principal == "User:ann"


def test_other_requests_before_the_login_are_refused(broker, caplog):
    with broker.connect() as client:
        client.send(ApiKey.METADATA, 8, topics=())
        assert client.is_hung_up_on()
    assert not broker.node.asked
    assert "Metadata request before the login" in caplog.text


def test_frames_are_limited_more_strictly_before_the_login(broker, caplog):
    with broker.connect() as client:
        client.socket.sendall(struct.pack(">i", 524_289))
        assert client.is_hung_up_on()
    assert "a message of 524289 bytes was announced, but at most 524288 are allowed" in caplog.text
    with broker.connect() as client:
        client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        client.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\0ann\0s3cret")
        client.ask(ApiKey.METADATA, 1, topics=[{"name": "t" * 30_000} for _ in range(20)])
        assert len(broker.node.asked[-1].message.topics) == 20


def test_the_response_to_a_disabled_mechanism_lists_the_enabled_ones(broker, caplog):
    caplog.set_level(logging.WARNING)
    with broker.connect() as client:
        answer = client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="GSSAPI")
        assert (answer.error_code, answer.mechanisms) == (33, ("PLAIN", "SCRAM-SHA-256"))
        assert client.is_hung_up_on()


def test_another_request_during_a_login_gets_its_error(broker):
    with broker.connect() as client:
        client.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert client.ask(ApiKey.LIST_GROUPS, 0).error_code == 34
        assert client.is_hung_up_on()
