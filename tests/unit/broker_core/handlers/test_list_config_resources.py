import pytest
from support.nodes.whole_node import EVE, a_guarded_node, a_node, allow, ask, make_topic

from broker_core.model.access_control import CLUSTER_NAME, Operation, ResourceType
from broker_core.protocol.api_table import ApiKey

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t")
    make_topic(node, "u")
    return node


def listed(node, *kinds, version=1, **more):
    fields = {"resource_types": kinds} if version else {}
    answer = ask(node, ApiKey.LIST_CONFIG_RESOURCES, version, **fields, **more)
    assert answer.error_code.name == "none"
    return {(getattr(each, "resource_type", CLIENT_METRICS), each.resource_name) for each in answer.config_resources
            if not each.resource_name.startswith("__")}  # fmt: skip


def test_version_0_lists_client_metrics_which_are_empty(node):
    assert listed(node, version=0) == set()


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((TOPIC,), {(TOPIC, "t"), (TOPIC, "u")}),
        ((BROKER,), {(BROKER, "1")}),
        ((LOGGER,), {(LOGGER, "1")}),
        ((CLIENT_METRICS,), set()),
        ((GROUP,), set()),
        ((TOPIC, BROKER, TOPIC), {(TOPIC, "t"), (TOPIC, "u"), (BROKER, "1")}),
        ((), {(TOPIC, "t"), (TOPIC, "u"), (BROKER, "1"), (LOGGER, "1")}),
    ],
)
def test_version_1_filters_by_type_and_no_type_means_all(node, kinds, expected):
    assert listed(node, *kinds) == expected


@pytest.mark.parametrize(("value", "expected"), [("50000", {(GROUP, "g")}), (None, set())])
def test_a_group_is_listed_while_it_has_settings(node, value, expected):
    for changed in ("50000", value):
        change = {"name": "consumer.session.timeout.ms", "config_operation": int(changed is None), "value": changed}
        resources = [{"resource_type": GROUP, "resource_name": "g", "configs": [change]}]
        ask(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources, validate_only=False)
    assert listed(node, GROUP) == expected


@pytest.mark.parametrize("kind", [0, 1, 99, -1])
def test_an_unknown_resource_type_is_an_unsupported_version(node, kind):
    answer = ask(node, ApiKey.LIST_CONFIG_RESOURCES, resource_types=(TOPIC, kind))
    assert (answer.error_code.name, answer.config_resources) == ("unsupported_version", ())


@pytest.mark.parametrize("version", [0, 1])
def test_a_client_without_describe_configs_access_is_refused(tmp_path, version):
    node = a_guarded_node(tmp_path / "log")
    answer = ask(node, ApiKey.LIST_CONFIG_RESOURCES, version, principal=EVE)
    assert (answer.error_code.name, answer.config_resources) == ("cluster_authorization_failed", ())
    allow(node, EVE, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)
    assert ask(node, ApiKey.LIST_CONFIG_RESOURCES, version, principal=EVE).error_code.name == "none"
