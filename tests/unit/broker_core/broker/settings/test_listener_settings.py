import pytest

from broker_core.broker.settings.listener_settings import parse_listeners
from broker_core.model.client_settings import BrokerAddress, SecurityProtocol

KEY = {"ssl.keystore.location": "/k.pem"}


def parsed(**given):
    complaints = []
    named = {name.replace("__", "."): value for name, value in given.items()}
    return parse_listeners(named, complaints), complaints


def test_a_listeners_protocol_is_its_name_or_comes_from_the_map():
    listeners, complaints = parsed(
        listeners="PLAINTEXT://127.0.0.1:9092,inside://[::1]:9093", listener__security__protocol__map="INSIDE:PLAINTEXT"
    )
    assert not complaints
    assert [(one.name, one.protocol, one.host, one.port) for one in listeners] == [
        ("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", 9092),
        ("INSIDE", SecurityProtocol.PLAINTEXT, "::1", 9093),
    ]


def test_clients_get_the_advertised_or_the_listening_address():
    listeners, _ = parsed(
        listeners="PLAINTEXT://127.0.0.1:1,B://:2", listener__security__protocol__map="B:PLAINTEXT",
        advertised__listeners="B://broker.example.com:3",
    )  # fmt: skip
    assert [one.advertised for one in listeners] == [
        BrokerAddress(host="127.0.0.1", port=1), BrokerAddress(host="broker.example.com", port=3),
    ]  # fmt: skip


def test_controller_listeners_are_not_opened():
    listeners, complaints = parsed(
        listeners="PLAINTEXT://:1,CONTROLLER://:2", controller__listener__names="CONTROLLER",
        advertised__listeners="PLAINTEXT://a:1,CONTROLLER://a:2",
    )  # fmt: skip
    assert ([one.name for one in listeners], complaints) == (["PLAINTEXT"], [])


def test_listener_prefixed_settings_override_general_ones():
    listeners, complaints = parsed(
        listeners="SSL://:1,B://:2", listener__security__protocol__map="B:SSL", **KEY,
        **{"listener.name.b.ssl.keystore.location": "/b.pem", "listener.name.b.max.connections": "7"},
    )  # fmt: skip
    assert not complaints
    assert [one.tls.identity.key_path for one in listeners] == ["/k.pem", "/b.pem"]
    assert [one.max_connection_count for one in listeners] == [None, 7]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"listeners": "127.0.0.1:9092"}, "is not a listener; write NAME://host:port"),
        ({"listeners": "PLAINTEXT://:70000"}, "is not a listener"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "PLAINTEXT is given twice"),
        ({"listeners": "PLAINTEXT://:1,SSL://:1"} | KEY, "PLAINTEXT and SSL have the same port 1"),
        ({"listeners": "FOO://:1"}, "has no protocol for listener FOO"),
        ({"listeners": "CONTROLLER://:1", "controller.listener.names": "CONTROLLER"}, "has no listener for clients"),
        ({"listeners": ""}, "has no listener for clients"),
        ({"listener.security.protocol.map": "A:TLS"}, "with a protocol of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"advertised.listeners": "SSL://a:1"}, "SSL is not in listeners"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to 0.0.0.0"),
        ({"listener.name.ssl.ssl.client.auth": "none"}, "SSL is not in listeners"),
    ],
)
def test_invalid_listeners_are_refused_with_the_reason(given, said):
    _, complaints = parsed(**given)
    assert len(complaints) == 1
    assert said in complaints[0]


def test_listening_on_all_addresses_needs_an_advertised_address():
    _, complaints = parsed(listeners="PLAINTEXT://0.0.0.0:1", advertised__listeners="PLAINTEXT://a:1")
    assert not complaints
