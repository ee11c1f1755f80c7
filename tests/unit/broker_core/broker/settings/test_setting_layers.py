import pytest

from broker_core.broker.settings.setting_layers import SettingLayers, SettingSource, base_name, known_setting

BROKER, CLUSTER, FILE, DEFAULT = SettingSource.BROKER, SettingSource.CLUSTER, SettingSource.FILE, SettingSource.DEFAULT
LAYERS = SettingLayers(
    of_broker={"log.retention.ms": "1"},
    of_cluster={"log.retention.ms": " 02 ", "message.max.bytes": "7"},
    of_file={"log.retention.hours": "+5", "message.max.bytes": "8"},
)


def synonyms(name, layers=LAYERS):
    return [(each.name, each.value, each.source) for each in layers.synonyms(name)]


def test_broker_values_override_cluster_values_and_those_override_the_file():
    assert LAYERS.merged() == {"log.retention.ms": "1", "log.retention.hours": "+5", "message.max.bytes": "7"}
    assert (LAYERS.source_of("log.retention.ms"), LAYERS.source_of("message.max.bytes")) == (BROKER, CLUSTER)
    assert (LAYERS.source_of("log.retention.hours"), LAYERS.source_of("num.partitions")) == (FILE, None)


def test_synonyms_are_ordered_by_layer_then_by_finest_unit():
    """As Kafka 4.3.1 told it of these layers."""
    assert synonyms("log.retention.ms") == [
        ("log.retention.ms", "1", BROKER), ("log.retention.ms", " 02 ", CLUSTER), ("log.retention.hours", "+5", FILE),
        ("log.retention.hours", "168", DEFAULT),
    ]  # fmt: skip
    assert synonyms("log.retention.hours") == [
        ("log.retention.hours", "+5", FILE), ("log.retention.hours", "168", DEFAULT),
    ]  # fmt: skip
    assert synonyms("log.retention.minutes") == []


def test_a_listener_setting_has_the_general_setting_as_synonym():
    layers = SettingLayers(
        of_file={
            "listener.name.plaintext.sasl.enabled.mechanisms": " PLAIN ,PLAIN",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": "secret",
        }
    )
    assert synonyms("listener.name.plaintext.sasl.enabled.mechanisms", layers) == [
        ("listener.name.plaintext.sasl.enabled.mechanisms", " PLAIN ,PLAIN", FILE),
        ("sasl.enabled.mechanisms", "PLAIN", FILE),
        ("sasl.enabled.mechanisms", "GSSAPI", DEFAULT),
    ]
    jaas = "listener.name.plaintext.plain.sasl.jaas.config"
    assert synonyms(jaas, layers) == [(jaas, None, FILE)]


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("num.partitions", "num.partitions"),
        ("listener.name.outside.ssl.client.auth", "ssl.client.auth"),
        ("listener.name.outside.scram-sha-512.sasl.jaas.config", "sasl.jaas.config"),
    ],
)
def test_a_listener_prefixed_setting_sets_the_setting_after_the_prefix(name, base):
    assert base_name(name) == base
    assert known_setting(name).name == base
    assert known_setting(name).is_sensitive == (base == "sasl.jaas.config")


def test_the_repr_of_layers_has_no_values():
    assert "secret" not in repr(SettingLayers(of_file={"sasl.jaas.config": "secret"}))
