"""The settings of a broker without a vote, as far as they are about the quorum."""

import pytest

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import InvalidConfigError
from broker_core.server.cluster.cluster_process import is_of_cluster
from broker_core.server.quorum.observer_settings import parse_observer_settings

GIVEN = {
    "process.roles": "broker",
    "node.id": "4",
    "controller.quorum.bootstrap.servers": "host-1:9093,host-2:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://host-4:9092",
    "log.dirs": "/data/broker",
}


def given_with(**others):
    given = {**GIVEN, **{name.replace("_", "."): value for name, value in others.items()}}
    return {name: value for name, value in given.items() if value is not None}


def parsed(**others):
    return parse_observer_settings(given_with(**others))


def test_kafkas_settings_are_read():
    settings = parsed(controller_quorum_request_timeout_ms="700")
    assert settings.controllers == (BrokerAddress(host="host-1", port=9093), BrokerAddress(host="host-2", port=9093))
    assert (settings.node_id, settings.log_dir, settings.timings.request_timeout_ms) == (4, "/data/broker", 700)
    assert settings.voters == {}


def test_static_voters_are_controllers_whose_ids_are_known():
    settings = parsed(controller_quorum_bootstrap_servers=None, controller_quorum_voters="1@host-1:9093,2@host-2:9094")
    assert [each.port for each in settings.controllers] == [9093, 9094]
    assert settings.voters[2] == BrokerAddress(host="host-2", port=9094)


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"node_id": None}, "node.id is missing"),
        ({"controller_quorum_bootstrap_servers": None}, "controller.quorum.bootstrap.servers .* is missing"),
        ({"controller_quorum_bootstrap_servers": "host-1"}, "host:port"),
        ({"controller_listener_names": None}, "controller.listener.names is missing"),
        ({"controller_listener_names": "PLAINTEXT"}, "has none of them in listeners"),
        ({"controller_quorum_voters": "4@host-4:9093"}, "node 4 is not a controller"),
        ({"listener_security_protocol_map": "CONTROLLER:SASL_SSL"}, "CONTROLLER asks for a login"),
    ],
)
def test_what_is_missing_or_not_there_yet_is_refused_by_name(others, words):
    with pytest.raises(InvalidConfigError, match=words):
        parsed(**others)


@pytest.mark.parametrize(
    ("others", "is_one"),
    [
        ({}, True),
        ({"controller_quorum_bootstrap_servers": None, "controller_quorum_voters": "1@host-1:9093"}, True),
        ({"controller_quorum_bootstrap_servers": None}, False),
        ({"process_roles": "broker,controller"}, True),
        ({"process_roles": "controller"}, False),
        ({"process_roles": None}, False),
    ],
)
def test_a_broker_is_one_of_a_cluster_if_its_role_and_its_controllers_say_so(others, is_one):
    assert is_of_cluster(given_with(**others)) is is_one
