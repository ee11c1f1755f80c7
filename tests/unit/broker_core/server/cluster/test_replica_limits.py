"""The settings of a broker for its replicas; those of its links are tested with `link_security`."""

from broker_core.server.cluster.replica_limits import parse_replica_limits

LISTENERS = "PLAINTEXT://:9092,OTHER://:9093"


def test_kafkas_defaults_hold_without_settings():
    limits = parse_replica_limits({})
    assert (limits.heartbeat_interval_ms, limits.session_timeout_ms, limits.links.listener) == (2000, 9000, "PLAINTEXT")


def test_brokers_use_the_listener_that_is_named():
    assert parse_replica_limits({"listeners": LISTENERS}).links.listener == "PLAINTEXT"
    named = {"listeners": LISTENERS, "inter.broker.listener.name": "other"}
    assert parse_replica_limits(named).links.listener == "OTHER"
