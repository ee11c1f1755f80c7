"""A broker's settings changed while it runs: ours answers, and serves, what Kafka 4.3.1 did."""

import json
from dataclasses import replace

import pytest
from golden.broker_changes_recording import (
    FILE,
    KEYSTORE,
    PROTOCOLS,
    SET,
    BrokerChange,
    PlayedChanges,
    changes,
    file_of_ssl,
)
from support.brokers.served_broker import ServedBroker

RECORDED = json.loads(FILE.read_text())
CHANGES = list(changes())
KAFKAS_WORDS = (
    "Cannot update these configs dynamically: [",
    "Cannot update these configs at default cluster level, broker id must be specified: [",
    "These security configs can be dynamically updated only per-listener using the listener prefix: [",
    "Dynamic thread count update validation failed for ",
    "Keystore DistinguishedName does not match",
    "Keystore SubjectAltNames do not match",
    "Security protocol cannot be updated for existing listener ListenerName(",
    "Value must be at least ",
    "Not a number of type INT",
    "String must be one of: ",
)
REFUSED_HERE = {
    "a port that is none": "Kafka takes it, and does not listen",
    "super.users is static": "Kafka takes every name that its broker does not know",
}
OURS_ALONE = {"flush.policy", "metrics.listener"}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """(recorded, ours) for each change, and the flags at the end."""
    folder = tmp_path_factory.mktemp("changes")
    file, settings = file_of_ssl(folder / "pems")
    broker = ServedBroker(folder / "node", settings)
    try:
        run = PlayedChanges(broker, file)
        pairs = zip(CHANGES, RECORDED["answers"], strict=True)
        yield [run.play(change, recorded["shown"]) for change, recorded in pairs], run.flags()
    finally:
        broker.stop()


def test_each_change_is_recorded():
    assert len(CHANGES) == len(RECORDED["answers"]) > 100


@pytest.mark.parametrize("number", range(len(CHANGES)), ids=[f"{n}-{one.what}" for n, one in enumerate(CHANGES)])
def test_a_change_is_answered_and_takes_effect_as_in_kafka(played, number):
    recorded, ours = RECORDED["answers"][number], played[0][number]
    if CHANGES[number].what in REFUSED_HERE:
        assert (recorded["error"], ours["error"]) == ("none", "invalid_request")
        return
    assert (ours["error"], ours["shown"]) == (recorded["error"], recorded["shown"]), (CHANGES[number], ours, recorded)
    for words in KAFKAS_WORDS:
        if words in (recorded["message"] or ""):
            assert words in ours["message"]


def test_read_only_types_and_secrets_are_described_as_by_kafka(played):
    ours = {name: flags for name, flags in played[1].items() if name not in OURS_ALONE}
    settings = {name for name in RECORDED["flags"] if not name.startswith("listener.name.")} - {"super.users"}
    assert {name for name in ours if not name.startswith("listener.name.")} == settings
    for name, flags in RECORDED["flags"].items():
        if name in ours:
            assert ours[name] == flags, name


def test_what_was_changed_is_served_after_a_restart(tmp_path):
    file, settings = file_of_ssl(tmp_path / "pems")
    broker = ServedBroker(tmp_path / "node", settings)
    try:
        run = PlayedChanges(broker, file)
        extra = BrokerChange(
            "a listener and a certificate",
            (
                (KEYSTORE, SET, "{pems}/broker-fewer-names.pem"),
                ("listeners", SET, "{listeners},EXTRA://127.0.0.1:{extra}"),
                ("listener.security.protocol.map", SET, f"{PROTOCOLS},EXTRA:PLAINTEXT"),
            ),
        )
        assert run.play(extra)["error"] == "invalid_request"
        renewed = replace(extra, settings=((KEYSTORE, SET, "{pems}/broker-renewed.pem"), *extra.settings[1:]))
        assert run.play(renewed)["error"] == "none"
        broker.restart()
        shown = {"SSL": "broker-renewed", "EXTRA": "Kafka's protocol"}
        assert run.play(BrokerChange("nothing", (), shows=("SSL", "EXTRA")), shown)["shown"] == shown
    finally:
        broker.stop()
