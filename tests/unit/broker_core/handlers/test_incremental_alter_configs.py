import pytest
from support.nodes.whole_node import a_node, ask, begin, make_topic

from broker_core.protocol.api_table import ApiKey

TOPIC = 2
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t", retention_ms=5000)
    return node


def request(*configs, validate_only=False):
    settings = [{"name": name, "config_operation": operation, "value": value} for name, operation, value in configs]
    resource = {"resource_type": TOPIC, "resource_name": "t", "configs": settings}
    return {"resources": [resource], "validate_only": validate_only}


def alter(node, *configs, version=None, **more):
    (answer,) = ask(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, version, **request(*configs, **more)).responses
    return answer.error_code.name


def settings(node):
    asked = [{"resource_type": TOPIC, "resource_name": "t", "configuration_keys": None}]
    (found,) = ask(node, ApiKey.DESCRIBE_CONFIGS, resources=asked).results
    return {each.name: each.value for each in found.configs if each.config_source == 1}


@pytest.mark.parametrize("version", [0, 1])
def test_single_settings_are_set_and_reset(node, version):
    assert alter(node, ("flush.ms", SET, "100"), version=version) == "none"
    assert settings(node) == {"retention.ms": "5000", "flush.ms": "100"}
    assert alter(node, ("retention.ms", DELETE, None), version=version) == "none"
    assert settings(node) == {"flush.ms": "100"}


def test_an_unset_setting_can_be_reset(node):
    assert alter(node, ("flush.ms", DELETE, None)) == "none"
    assert alter(node, ("retention.ms", DELETE, "7")) == "none"
    assert settings(node) == {}


def test_list_items_are_appended_and_subtracted(node):
    assert alter(node, ("cleanup.policy", APPEND, "compact")) == "none"
    assert settings(node)["cleanup.policy"] == "delete,compact"
    assert alter(node, ("cleanup.policy", APPEND, "compact")) == "none"
    assert settings(node)["cleanup.policy"] == "delete,compact"
    assert alter(node, ("cleanup.policy", SUBTRACT, "delete")) == "none"
    assert settings(node)["cleanup.policy"] == "compact"
    assert alter(node, ("cleanup.policy", SUBTRACT, "delete")) == "none"
    assert settings(node)["cleanup.policy"] == "compact"


def test_list_items_are_compared_as_they_were_typed(node):
    """As in Kafka 4.3.1. With the blanks removed, `compact` alone was left."""
    assert alter(node, ("cleanup.policy", SET, " delete , compact ")) == "none"
    assert alter(node, ("cleanup.policy", APPEND, " compact")) == "none"
    assert alter(node, ("cleanup.policy", SUBTRACT, "delete")) == "none"
    assert settings(node)["cleanup.policy"] == "delete,compact"
    assert alter(node, ("cleanup.policy", SUBTRACT, " delete ")) == "none"
    assert settings(node)["cleanup.policy"] == "compact"


@pytest.mark.parametrize(("operation", "name"), [(APPEND, "APPEND"), (SUBTRACT, "SUBTRACT")])
def test_a_setting_that_is_no_list_is_refused_with_kafkas_message(node, operation, name):
    (answer,) = ask(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, None, **request(("retention.ms", operation, "5"))).responses
    assert answer.error_message == f"Can't {name} to key retention.ms because its type is not LIST."


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (("retention.ms", APPEND, "5"), "invalid_config"),
        (("retention.ms", SUBTRACT, "5"), "invalid_config"),
        (("no.such", APPEND, "5"), "invalid_config"),
        (("no.such", SET, "5"), "invalid_config"),
        (("", SET, "5"), "invalid_config"),
        (("retention.ms", SET, "soon"), "invalid_config"),
        (("retention.ms", SET, "-7"), "invalid_config"),
        (("retention.ms", SET, ""), "invalid_config"),
        (("cleanup.policy", APPEND, "burn"), "invalid_config"),
        (("retention.ms", SET, None), "invalid_request"),
        (("cleanup.policy", APPEND, None), "invalid_request"),
        (("retention.ms", 7, "5"), "unknown_server_error"),
    ],
)
def test_one_invalid_change_changes_nothing(node, config, expected):
    assert alter(node, ("flush.ms", SET, "100"), config) == expected
    assert alter(node, config, validate_only=True) == expected
    assert settings(node) == {"retention.ms": "5000"}


def test_a_duplicate_setting_is_refused(node):
    assert alter(node, ("flush.ms", SET, "1"), ("flush.ms", DELETE, None)) == "invalid_request"
    assert settings(node) == {"retention.ms": "5000"}


def test_validate_only_changes_nothing(node):
    assert alter(node, ("flush.ms", SET, "100"), validate_only=True) == "none"
    assert settings(node) == {"retention.ms": "5000"}


def test_an_empty_change_changes_nothing(node):
    assert alter(node) == "none"
    assert settings(node) == {"retention.ms": "5000"}


def test_concurrent_changes_of_one_topic_are_both_applied(node):
    """The second is planned over what the first one left."""
    waiting = [
        begin(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, **request(("cleanup.policy", APPEND, "compact"))),
        begin(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, **request(("cleanup.policy", SUBTRACT, "delete"))),
    ]
    node.jobs.run_all()
    assert [each.answer.responses[0].error_code.name for each in waiting] == ["none", "none"]
    assert settings(node)["cleanup.policy"] == "compact"
