"""TLS, and who a client is by his certificate, with the certificates of tests/golden/tls."""

import logging
import socket
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from support.brokers.small_broker import RawClient, SmallBroker, until, versions

from broker_core.model.exceptions import BrokerUnavailableError, InvalidConfigError

PEMS = Path(__file__).parents[3] / "golden" / "tls"
TLS = {"listeners": "SSL://127.0.0.1:0", "ssl__keystore__location": PEMS / "broker.pem"}
TRUST = {"ssl__truststore__location": PEMS / "authority.pem"}


def context_of(certificate=None):
    context = ssl.create_default_context(cafile=PEMS / "authority.pem")
    if certificate is not None:
        context.load_cert_chain(PEMS / certificate)
    return context


def connect(broker, context):
    plain = socket.create_connection(("127.0.0.1", broker.port), timeout=20)
    return RawClient(0, context.wrap_socket(plain, server_hostname="localhost"))


def test_a_tls_listener_serves_clients_that_trust_it():
    with SmallBroker(**TLS) as broker, connect(broker, context_of()) as client:
        assert versions(client).api_keys
        assert broker.node.asked[-1].principal == "User:ANONYMOUS"


def test_large_responses_are_sent_whole_over_tls():
    with SmallBroker(**TLS) as broker, connect(broker, context_of()) as client:
        broker.node.answer_bytes = 3_000_000
        assert len(client.ask(3, 9, topics=()).cluster_id) == 3_000_000


def test_a_client_certificate_sets_the_principal():
    with (
        SmallBroker(**TLS, **TRUST, ssl__client__auth="required") as broker,
        connect(broker, context_of("client.pem")) as client,
    ):
        versions(client)
        assert broker.node.asked[-1].principal == "User:CN=ann"


def test_mapping_rules_translate_the_subject():
    with (
        SmallBroker(
            **TLS, **TRUST, ssl__client__auth="requested", ssl__principal__mapping__rules="RULE:^CN=(.*)$/$1/U"
        ) as broker,
        connect(broker, context_of("client.pem")) as client,
        connect(broker, context_of()) as nobody,
    ):
        versions(client)
        assert broker.node.asked[-1].principal == "User:ANN"
        versions(nobody)
        assert broker.node.asked[-1].principal == "User:ANONYMOUS"


def test_a_client_without_a_matching_rule_is_refused(caplog):
    with SmallBroker(
        **TLS, **TRUST, ssl__client__auth="required", ssl__principal__mapping__rules="RULE:^OU=(.*)$/$1/"
    ) as broker:
        with connect(broker, context_of("client.pem")) as client:
            assert client.is_hung_up_on()
        assert not broker.node.asked
    assert any("ssl.principal.mapping.rules" in record.getMessage() for record in caplog.records)


def test_a_client_without_the_required_certificate_is_refused(caplog):
    with SmallBroker(**TLS, **TRUST, ssl__client__auth="required") as broker:
        # With TLS 1.3 the client believes that it is connected before it is refused.
        with suppress(ssl.SSLError), connect(broker, context_of()) as client:
            assert client.is_hung_up_on()
        until(lambda: "TLS handshake" in caplog.text)
        assert not broker.node.asked


@pytest.mark.parametrize(
    "data", [b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff", b"GET / HTTP/1.1\r\n\r\n"], ids=["kafka", "http"]
)
def test_a_failed_tls_handshake_is_logged(data, caplog):
    with SmallBroker(**TLS) as broker, broker.connect() as client, caplog.at_level(logging.WARNING):
        client.socket.sendall(data)
        assert client.is_hung_up_on()
        with connect(broker, context_of()) as good:
            assert versions(good).api_keys
    assert any("TLS handshake" in record.getMessage() for record in caplog.records)


def test_a_port_in_use_is_reported_with_the_listener():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerUnavailableError, match=f"cannot listen on PLAINTEXT://127.0.0.1:{port}: .*in use"):
            SmallBroker(listeners=f"PLAINTEXT://127.0.0.1:{port}").__enter__()


def test_if_one_listener_fails_the_others_are_closed():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as other:
            free = other.getsockname()[1]
        with pytest.raises(BrokerUnavailableError):
            SmallBroker(
                listeners=f"PLAINTEXT://127.0.0.1:{free},B://127.0.0.1:{port}",
                listener__security__protocol__map="B:PLAINTEXT",
            ).__enter__()
        socket.create_server(("127.0.0.1", free)).close()


def test_unusable_certificates_are_reported_with_their_setting():
    with pytest.raises(InvalidConfigError, match=r"SSL: ssl.keystore.location: no PEM key .*authority.pem"):
        SmallBroker(**(TLS | {"ssl__keystore__location": PEMS / "authority.pem"})).__enter__()


def test_without_a_host_the_listener_binds_all_addresses():
    with SmallBroker(listeners="PLAINTEXT://:0") as broker, broker.connect() as client:
        assert versions(client).api_keys
