"""Listeners and certificates that change while a server runs; what Kafka answers is in `golden/test_broker_changes`."""

import shutil
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from support.brokers.reachable_broker import free_ports
from support.brokers.small_broker import RawClient, SmallBroker, versions

from broker_core.broker.settings.dynamic_settings import changed_config
from broker_core.model.exceptions import InvalidConfigError
from broker_core.server.tls_settings import certificate_of_file

PEMS = Path(__file__).parents[3] / "golden" / "tls"


def certificate_at(port):
    """The name of the file whose certificate is shown to a new connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=20) as plain, context.wrap_socket(plain) as connection:
        shown = connection.getpeercert(binary_form=True)
    return next(file.stem for file in PEMS.glob("*.pem") if certificate_of_file(str(file)) == shown)


def tell(broker, **settings):
    """Dynamic settings of the broker, in place of the earlier ones."""
    of_broker = {name.replace("__", "."): str(value) for name, value in settings.items()}
    config = broker.server.config
    altered = changed_config(config, of_cluster={}, of_broker=of_broker)
    broker.call(lambda: broker.node.ports.check_listeners(config.listeners, altered.listeners))
    broker.call(lambda: broker.node.tell_settings(altered))


def refusal(broker, **settings):
    config = broker.server.config
    altered = changed_config(
        config, of_cluster={}, of_broker={name.replace("__", "."): str(value) for name, value in settings.items()}
    )
    caught = []

    def check():
        try:
            broker.node.ports.check_listeners(config.listeners, altered.listeners)
        except InvalidConfigError as error:
            caught.append(error.message)

    broker.call(check)
    return caught[0]


@pytest.fixture
def pem(tmp_path):
    return shutil.copy(PEMS / "broker.pem", tmp_path / "broker.pem")


def test_a_renewed_file_is_served_to_new_connections_and_open_ones_stay(pem):
    with SmallBroker(listeners="SSL://127.0.0.1:0", ssl__keystore__location=pem) as broker:
        context = ssl.create_default_context(cafile=PEMS / "authority.pem")
        plain = socket.create_connection(("127.0.0.1", broker.port), timeout=20)
        with RawClient(0, context.wrap_socket(plain, server_hostname="localhost")) as client:
            shutil.copy(PEMS / "broker-renewed.pem", pem)
            assert certificate_at(broker.port) == "broker"
            tell(broker, log__retention__ms=1)
            assert certificate_at(broker.port) == "broker-renewed"
            assert versions(client).api_keys


def test_a_file_that_cannot_be_read_leaves_the_certificate_that_is_served(pem, caplog):
    with SmallBroker(listeners="SSL://127.0.0.1:0", ssl__keystore__location=pem) as broker:
        for content in ("no certificate", ""):
            Path(pem).write_text(content)
            tell(broker, log__retention__ms=1)
            assert certificate_at(broker.port) == "broker"
    assert "listener=SSL: a change of settings could not be applied" in caplog.text


def test_a_certificate_with_another_subject_is_served_if_ssl_allow_dn_changes_says_so(pem):
    tls = {"listeners": "SSL://127.0.0.1:0", "ssl__keystore__location": pem, "ssl__allow__san__changes": "true"}
    with SmallBroker(**tls) as broker:
        shutil.copy(PEMS / "elsewhere.pem", pem)
        tell(broker, log__retention__ms=1)
        assert certificate_at(broker.port) == "broker"
    shutil.copy(PEMS / "broker.pem", pem)
    with SmallBroker(**tls, ssl__allow__dn__changes="true") as broker:
        shutil.copy(PEMS / "elsewhere.pem", pem)
        tell(broker, log__retention__ms=1)
        assert certificate_at(broker.port) == "elsewhere"


def test_a_certificate_with_less_names_is_served_if_ssl_allow_san_changes_says_so(pem):
    tls = {"listeners": "SSL://127.0.0.1:0", "ssl__keystore__location": pem}
    fewer = {"listener__name__ssl__ssl__keystore__location": PEMS / "broker-fewer-names.pem"}
    with SmallBroker(**tls) as broker:
        assert "Keystore SubjectAltNames do not match" in refusal(broker, **fewer)
        # Also after settings were changed that have nothing to do with it.
        tell(broker, log__retention__ms=1)
        assert "Keystore SubjectAltNames do not match" in refusal(broker, **fewer)
    with SmallBroker(**tls, ssl__allow__san__changes="true") as broker:
        tell(broker, **fewer)
        assert certificate_at(broker.port) == "broker-fewer-names"


def test_a_listener_is_added_and_removed_with_its_connections():
    (port,) = free_ports(1)
    with SmallBroker(advertised__listeners="PLAINTEXT://127.0.0.1:0") as broker, broker.connect() as first:
        listeners = f"PLAINTEXT://127.0.0.1:0,MORE://127.0.0.1:{port}"
        tell(broker, listeners=listeners, listener__security__protocol__map="MORE:PLAINTEXT")
        with RawClient(port) as client:
            assert versions(client).api_keys
            tell(broker)
            assert client.is_hung_up_on()
        with pytest.raises(ConnectionRefusedError):
            RawClient(port)
        assert versions(first).api_keys
        # Its address is free, and can be taken again.
        tell(broker, listeners=listeners, listener__security__protocol__map="MORE:PLAINTEXT")
        with RawClient(port) as client:
            assert versions(client).api_keys


def test_a_listener_moves_to_another_port():
    (port,) = free_ports(1)
    with SmallBroker() as broker:
        tell(broker, listeners=f"PLAINTEXT://127.0.0.1:{port}")
        with RawClient(port) as client:
            assert versions(client).api_keys
        with pytest.raises(ConnectionRefusedError):
            broker.connect()


def test_an_address_that_is_taken_is_refused_before_it_is_stored():
    with SmallBroker() as broker, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        more = {"listener__security__protocol__map": "MORE:PLAINTEXT"}
        listeners = "PLAINTEXT://127.0.0.1:0,MORE://127.0.0.1"
        assert "Address already in use" in refusal(broker, listeners=f"{listeners}:{port}", **more)
        assert "needs a port" in refusal(broker, listeners=f"{listeners}:0", **more)


def test_an_address_that_is_taken_meanwhile_costs_the_other_listeners_nothing(caplog):
    with SmallBroker() as broker, socket.create_server(("127.0.0.1", 0)) as taken:
        listeners = f"PLAINTEXT://127.0.0.1:0,MORE://127.0.0.1:{taken.getsockname()[1]}"
        protocols = {"listener.security.protocol.map": "MORE:PLAINTEXT"}
        altered = changed_config(broker.server.config, of_cluster={}, of_broker={"listeners": listeners, **protocols})
        broker.call(lambda: broker.node.tell_settings(altered))
        with broker.connect() as client:
            assert versions(client).api_keys
    assert "listener=MORE: a change of settings could not be applied" in caplog.text


def test_a_listeners_own_limit_lets_a_waiting_connection_in_when_it_grows():
    with SmallBroker() as broker:
        tell(broker, listener__name__plaintext__max__connections=1)
        with broker.connect() as first, broker.connect() as second:
            assert versions(first).api_keys
            second.socket.settimeout(0.2)
            with pytest.raises(TimeoutError):
                versions(second)
            tell(broker, listener__name__plaintext__max__connections=2)
            second.socket.settimeout(20)
            assert second.receive().api_keys


def test_changed_users_of_plain_count_for_new_logins():
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required user_ann=%s;"
    with SmallBroker(
        listeners="SASL_PLAINTEXT://127.0.0.1:0", sasl__enabled__mechanisms="PLAIN", sasl__jaas__config=jaas % "old"
    ) as broker:
        (listener,) = broker.server.config.listeners
        login = replace(listener.login, plain_users={"ann": "new"})
        altered = replace(broker.server.config, listeners=(replace(listener, login=login),))
        (served,) = broker.server._listeners
        before = served._new_login
        broker.call(lambda: broker.node.tell_settings(altered))
        assert served._new_login is not before
