import pytest
from support.nodes.whole_node import a_node, ask, make_topic

from broker_core.protocol.api_table import ApiKey

TOPIC = 2


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t", retention_ms=5000, flush_ms=100)
    return node


def alter(node, *configs, version=None, validate_only=False):
    resource = {
        "resource_type": TOPIC,
        "resource_name": "t",
        "configs": [{"name": name, "value": value} for name, value in configs],
    }
    (answer,) = ask(node, ApiKey.ALTER_CONFIGS, version, resources=[resource], validate_only=validate_only).responses
    return answer.error_code.name


def settings(node):
    asked = [{"resource_type": TOPIC, "resource_name": "t", "configuration_keys": None}]
    (found,) = ask(node, ApiKey.DESCRIBE_CONFIGS, resources=asked).results
    return {each.name: each.value for each in found.configs if each.config_source == 1}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_topic_gets_exactly_the_settings_of_the_request(node, version):
    assert alter(node, ("retention.ms", "7000"), ("max.message.bytes", "2000"), version=version) == "none"
    assert settings(node) == {"retention.ms": "7000", "max.message.bytes": "2000"}


def test_no_settings_reset_all(node):
    assert alter(node) == "none"
    assert settings(node) == {}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (("retention.ms", "soon"), "invalid_config"),
        (("retention.ms", "-7"), "invalid_config"),
        (("no.such", "1"), "invalid_config"),
        (("", "1"), "invalid_config"),
        (("retention.ms", None), "invalid_request"),
        (("max.message.bytes", "3000"), "invalid_request"),
    ],
    ids=["no number", "out of range", "unknown", "without a name", "null", "given twice"],
)
def test_one_invalid_setting_changes_nothing(node, config, expected):
    assert alter(node, ("max.message.bytes", "2000"), config) == expected
    assert settings(node) == {"retention.ms": "5000", "flush.ms": "100"}


def test_validate_only_changes_nothing(node):
    assert alter(node, ("retention.ms", "7000"), validate_only=True) == "none"
    assert alter(node, ("retention.ms", "x"), validate_only=True) == "invalid_config"
    assert settings(node) == {"retention.ms": "5000", "flush.ms": "100"}
