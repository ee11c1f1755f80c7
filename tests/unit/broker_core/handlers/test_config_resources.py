import pytest
from support.nodes.whole_node import EVE, a_guarded_node, ask

from broker_core.handlers.config_resources import ResourceKind, is_known, refusal_of_kind
from broker_core.protocol.api_table import ApiKey


@pytest.mark.parametrize("kind", [2, 4, 8, 16, 32])
def test_kafkas_resource_types_are_known(kind):
    assert is_known(kind)


@pytest.mark.parametrize("kind", [0, 1, 3, 64, -1])
def test_other_resource_types_are_unknown(kind):
    assert not is_known(kind)
    assert str(kind) in refusal_of_kind(kind).message


def test_a_resource_type_without_settings_is_refused_by_name():
    assert "BROKER_LOGGER" in refusal_of_kind(ResourceKind.BROKER_LOGGER).message


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        (ResourceKind.TOPIC, "topic_authorization_failed"),
        (ResourceKind.GROUP, "group_authorization_failed"),
        (ResourceKind.BROKER, "cluster_authorization_failed"),
        (ResourceKind.BROKER_LOGGER, "cluster_authorization_failed"),
        (ResourceKind.CLIENT_METRICS, "cluster_authorization_failed"),
    ],
)
def test_each_resource_type_has_its_required_access(tmp_path, kind, refused):
    node = a_guarded_node(tmp_path / "log")
    resources = [{"resource_type": int(kind), "resource_name": "1", "configs": []}]
    changes = [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS]
    if kind is ResourceKind.BROKER_LOGGER:
        changes = changes[1:]
        assert alter_loggers_as_a_whole(node, resources) == "invalid_request"
    for api_key in changes:
        (answer,) = ask(node, api_key, resources=resources, validate_only=False, principal=EVE).responses
        assert answer.error_code.name == refused
    asked = [{"resource_type": int(kind), "resource_name": "1", "configuration_keys": None}]
    (answer,) = ask(node, ApiKey.DESCRIBE_CONFIGS, resources=asked, principal=EVE).results
    assert answer.error_code.name == refused


def alter_loggers_as_a_whole(node, resources):
    """AlterConfigs does not support loggers, for any user."""
    asked = {"resources": resources, "validate_only": False, "principal": EVE}
    return ask(node, ApiKey.ALTER_CONFIGS, **asked).responses[0].error_code.name
