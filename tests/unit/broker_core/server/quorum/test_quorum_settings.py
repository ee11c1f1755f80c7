import pytest

from broker_core.model.client_settings import BrokerAddress
from broker_core.model.exceptions import InvalidConfigError
from broker_core.server.quorum.quorum_settings import parse_added_controller, parse_quorum_settings, parse_voters

GIVEN = {"node.id": "2", "controller.quorum.voters": "1@a:9093,2@[::1]:9094", "log.dirs": "/data/x,/data/y"}

DYNAMIC = {
    "controller.quorum.voters": "",
    "controller.quorum.bootstrap.servers": "a:9093,b:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://:9094,PLAINTEXT://:9092",
    "advertised.listeners": "CONTROLLER://here:9095",
}


def test_a_node_of_a_dynamic_quorum_knows_its_own_address_and_whom_to_ask():
    found = parse_quorum_settings({**GIVEN, **DYNAMIC, "controller.quorum.auto.join.enable": "true"})
    assert found.voters == {} and found.joins_by_itself
    assert found.address == BrokerAddress(host="here", port=9095) and found.listener.port == 9094
    assert found.bootstrap == (BrokerAddress(host="a", port=9093), BrokerAddress(host="b", port=9093))
    added = parse_added_controller({**GIVEN, **DYNAMIC})
    assert (added.node_id, added.log_dir, added.endpoints) == (2, "/data/x", {"CONTROLLER": found.address})


def test_kafkas_settings_are_read():
    timings = {"controller.quorum.fetch.timeout.ms": "1000", "controller.quorum.election.timeout.ms": "500"}
    found = parse_quorum_settings({**GIVEN, **timings, "listeners": "CONTROLLER://:9094"})
    assert (found.node_id, found.address, found.log_dir) == (2, BrokerAddress(host="::1", port=9094), "/data/x")
    assert (found.timings.fetch_timeout_ms, found.timings.election_timeout_ms) == (1000, 500)
    assert parse_quorum_settings({**GIVEN, "metadata.log.dir": "/meta"}).log_dir == "/meta"
    often = parse_quorum_settings({**GIVEN, "metadata.max.idle.interval.ms": "30"})
    timings = often.controller_timings, parse_quorum_settings(GIVEN).controller_timings
    assert tuple(each.no_op_interval_ms for each in timings) == (30, 500)
    assert parse_quorum_settings(GIVEN).timings.fetch_timeout_ms == 2000


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"node.id": ""}, "node.id is missing"),
        ({"node.id": "3"}, "not among controller.quorum.voters"),
        ({"node.id": "x"}, "Not a number"),
        (
            {"controller.quorum.voters": " "},
            "bootstrap.servers is missing, or controller.quorum.voters",
        ),
        ({"log.dirs": ""}, "log.dir is missing"),
        ({"process.roles": "broker,controller"}, "a controller only"),
        ({**DYNAMIC, "listeners": ""}, "listeners has no CONTROLLER, which other controllers connect to"),
        ({**DYNAMIC, "controller.quorum.bootstrap.servers": "a"}, "must be host:port, separated by commas"),
        ({**DYNAMIC, "controller.quorum.auto.join.enable": "x"}, "auto.join"),
        ({"controller.listener.names": "SSL"}, "SSL uses TLS but has no certificate"),
        (
            {
                "controller.listener.names": "C",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,C:SASL_PLAINTEXT",
            },
            "C asks for a login: sasl.mechanism.controller.protocol must be one of PLAIN, .*, not 'GSSAPI'",
        ),
        ({"controller.quorum.fetch.timeout.ms": "0"}, "at least 1"),
    ],
)
def test_a_wrong_setting_is_named(changed, complaint):
    with pytest.raises(InvalidConfigError, match=complaint):
        parse_quorum_settings({**GIVEN, **changed})


SCRAM = {
    "controller.listener.names": "C",
    "listener.security.protocol.map": "C:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
    "listener.name.c.scram-sha-256.sasl.jaas.config": (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="node" password="x";'
    ),
}


def test_controllers_log_in_at_each_other_by_scram_only_where_there_is_one():
    # Three of Kafka 4.3.1 that are set up so elect nobody for ever; one works, with its users of --add-scram.
    with pytest.raises(InvalidConfigError, match="cannot log in at each other by SCRAM"):
        parse_quorum_settings({**GIVEN, **SCRAM})
    alone = parse_quorum_settings({**GIVEN, **SCRAM, "controller.quorum.voters": "2@a:9093"})
    assert alone.links.sasl.username == "node"
    assert alone.listener.login.mechanisms == ("SCRAM-SHA-256",)


@pytest.mark.parametrize("text", ["1@a", "1@a:x", "1@a:70000", "1@a:1,1@b:2", "a:1", ","])
def test_voters_that_are_none_are_refused(text):
    with pytest.raises(InvalidConfigError, match=r"controller\.quorum\.voters"):
        parse_voters(text)
