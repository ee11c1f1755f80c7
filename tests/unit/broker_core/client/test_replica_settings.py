"""The settings of a broker that only follows."""

import pytest

from broker_core.client.replica_settings import parse_replica_settings
from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import InvalidConfigError

GIVEN = {
    "process.roles": "broker",
    "node.id": "4",
    "controller.quorum.bootstrap.servers": "host-1:9093,host-2:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://host-4:9092",
    "log.dirs": "/data/replica",
}


def parsed(**others):
    given = {**GIVEN, **{name.replace("_", "."): value for name, value in others.items()}}
    return parse_replica_settings({name: value for name, value in given.items() if value is not None})


def test_kafkas_settings_are_read():
    settings = parsed(broker_rack="a", replica_fetch_wait_max_ms="50")
    assert settings.controllers == (BrokerAddress(host="host-1", port=9093), BrokerAddress(host="host-2", port=9093))
    assert (settings.node_id, settings.listener, settings.address) == (
        4, "PLAINTEXT", BrokerAddress(host="host-4", port=9092),
    )  # fmt: skip
    assert (settings.rack, settings.fetch_wait_ms, settings.heartbeat_interval_ms) == ("a", 50, 2000)


def test_static_voters_are_controllers_too():
    settings = parsed(controller_quorum_bootstrap_servers=None, controller_quorum_voters="1@host-1:9093,2@host-2:9094")
    assert [each.port for each in settings.controllers] == [9093, 9094]


def test_what_the_cluster_is_told_is_the_advertised_listener_between_brokers():
    settings = parsed(
        inter_broker_listener_name="INTERNAL",
        listeners="EXTERNAL://:9092,INTERNAL://:9094",
        advertised_listeners="EXTERNAL://outside:9092,INTERNAL://inside:9094",
        listener_security_protocol_map="INTERNAL:PLAINTEXT,EXTERNAL:SSL,CONTROLLER:PLAINTEXT",
    )
    assert settings.address == BrokerAddress(host="inside", port=9094)


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"process_roles": "broker,controller"}, "process.roles=broker"),
        ({"process_roles": None}, "process.roles=broker"),
        ({"node_id": None}, "node.id is missing"),
        ({"controller_quorum_bootstrap_servers": None}, "controller.quorum.bootstrap.servers is missing"),
        ({"controller_quorum_bootstrap_servers": "host-1"}, "host:port"),
        ({"controller_listener_names": None}, "controller.listener.names is missing"),
        ({"log_dirs": "/a,/b"}, "one directory"),
        ({"inter_broker_listener_name": "OTHER"}, "no listener OTHER"),
        ({"listener_security_protocol_map": "CONTROLLER:SASL_SSL"}, "CONTROLLER is SASL_SSL"),
        ({"listener_security_protocol_map": "PLAINTEXT:SSL"}, "PLAINTEXT is SSL"),
    ],
)
def test_what_is_missing_or_not_there_yet_is_refused_by_name(others, words):
    with pytest.raises(InvalidConfigError, match=words):
        parsed(**others)
