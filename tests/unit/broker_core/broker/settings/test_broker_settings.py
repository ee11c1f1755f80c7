"""Held against what a real Kafka 4.3.1 says of itself."""

import json
from pathlib import Path

from broker_core.broker.settings.broker_settings import BROKER_SETTINGS
from broker_core.broker.settings.idle_settings import IDLE_SETTINGS
from broker_core.model.topic_defaults import TOPIC_SYNONYMS
from broker_core.model.topic_settings import SETTINGS

KAFKA = json.loads((Path(__file__).parents[4] / "golden" / "broker-settings-kafka-4.3.1.json").read_text())
OURS = {"flush.policy", "metrics.listener"}
NOT_DESCRIBED_BY_KAFKA = {"super.users", "allow.everyone.if.no.acl.found"}


def test_the_table_has_kafkas_settings_and_ours_without_duplicates():
    assert BROKER_SETTINGS.keys() | IDLE_SETTINGS.keys() == KAFKA.keys() | OURS | NOT_DESCRIBED_BY_KAFKA
    assert not BROKER_SETTINGS.keys() & IDLE_SETTINGS.keys()


def test_type_default_and_kind_match_kafka():
    described = {
        name: [int(setting.kind), setting.default, setting.is_dynamic, setting.kind == 9]
        for name, setting in {**IDLE_SETTINGS, **BROKER_SETTINGS}.items()
        if name in KAFKA
    }
    assert described == KAFKA


def test_settings_that_kafka_hides_are_hidden():
    hidden = {name for name, setting in BROKER_SETTINGS.items() if not setting.is_described}
    assert hidden == OURS | NOT_DESCRIBED_BY_KAFKA


def test_every_default_is_a_valid_value():
    for setting in BROKER_SETTINGS.values():
        if setting.default is not None and setting.name != "sasl.enabled.mechanisms":
            setting.parse(setting.default)  # its error names the setting


def test_every_setting_has_a_description():
    docs = [setting.doc for setting in BROKER_SETTINGS.values()]
    assert not [doc for doc in docs if len(doc.split()) < 3]


def test_every_topic_setting_has_a_broker_default_except_replication_settings():
    without = SETTINGS.keys() - TOPIC_SYNONYMS.keys()
    assert without == {
        "follower.replication.throttled.replicas", "internal.segment.bytes", "leader.replication.throttled.replicas",
        "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable",
    }  # fmt: skip
    assert all(name in BROKER_SETTINGS for names in TOPIC_SYNONYMS.values() for name in names)
