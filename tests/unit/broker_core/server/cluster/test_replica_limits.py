"""The settings of a broker for its links to other brokers."""

import pytest

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.model.exceptions import InvalidConfigError
from broker_core.server.cluster.replica_limits import check_inter_broker_listener, parse_replica_limits

PLAIN = "PLAINTEXT://:9092,OTHER://:9093"
PROTOCOLS = "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"


def listener_of(**given):
    named = {name.replace("_", "."): value for name, value in given.items()}
    config = parse_broker_config({"listeners": PLAIN, "listener.security.protocol.map": PROTOCOLS, **named})
    limits = parse_replica_limits(named)
    check_inter_broker_listener(limits, config.listeners)
    return limits.listener


def test_kafkas_defaults_hold_without_settings():
    limits = parse_replica_limits({})
    assert (limits.heartbeat_interval_ms, limits.session_timeout_ms, limits.listener) == (2000, 9000, "PLAINTEXT")


def test_brokers_use_the_listener_that_is_named():
    assert listener_of() == "PLAINTEXT"
    assert listener_of(inter_broker_listener_name="other") == "OTHER"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"inter_broker_listener_name": "NONE"}, "NONE for configuration inter.broker.listener.name"),
        ({"security_inter_broker_protocol": "SSL"}, "SSL for configuration inter.broker.listener.name"),
        (
            {"listeners": "SASL_PLAINTEXT://:9092", "inter_broker_listener_name": "SASL_PLAINTEXT",
             "sasl_enabled_mechanisms": "SCRAM-SHA-512"},
            "neither TLS nor logins between them",
        ),
    ],
)  # fmt: skip
def test_a_listener_that_is_not_there_or_has_logins_is_refused(given, words):
    with pytest.raises(InvalidConfigError, match=words):
        listener_of(**given)
