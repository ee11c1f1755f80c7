import pytest
from support.nodes.whole_node import EVE, a_guarded_node, a_node, allow, ask, make_topic

from broker_core.model.access_control import CLUSTER_NAME, Operation, ResourceType
from broker_core.protocol.api_table import ApiKey

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
OF_TOPIC, OF_FILE, DEFAULT = 1, 4, 5
OURS = {"flush.policy"}
"""Kafka does not have it."""


@pytest.fixture
def node(tmp_path):
    node = a_node(tmp_path / "log")
    make_topic(node, "t", retention_ms=5000, cleanup_policy="compact,delete")
    return node


def resource(kind, name, keys=None):
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


def look(node, *resources, version=None, synonyms=False, text=False, principal="User:ANONYMOUS"):
    return ask(node, ApiKey.DESCRIBE_CONFIGS, version, principal=principal, resources=resources,
               include_synonyms=synonyms, include_documentation=text).results  # fmt: skip


def error_of(node, *given, **more):
    (result,) = look(node, resource(*given), **more)
    return result.error_code.name


def configs(node, *given, **more):
    (result,) = look(node, resource(*given), **more)
    assert (result.error_code.name, result.resource_type, result.resource_name) == ("none", *given[:2])
    return {each.name: each for each in result.configs}


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topic_is_described_with_all_effective_settings(node, version):
    found = configs(node, TOPIC, "t", version=version)
    assert len(set(found) - OURS) == 33
    shown = {name: (found[name].value, found[name].config_source) for name in
             ("retention.ms", "cleanup.policy", "max.message.bytes", "compression.type")}  # fmt: skip
    assert shown == {
        "retention.ms": ("5000", OF_TOPIC),
        "cleanup.policy": ("compact,delete", OF_TOPIC),
        "max.message.bytes": ("1048588", DEFAULT),
        "compression.type": ("producer", DEFAULT),
    }
    assert not any(each.read_only or each.is_sensitive or each.synonyms for each in found.values())


def test_config_types_have_kafkas_numbers(node):
    found = configs(node, TOPIC, "t")
    kinds = {"preallocate": 1, "compression.type": 2, "min.insync.replicas": 3, "retention.ms": 5,
             "min.cleanable.dirty.ratio": 6, "cleanup.policy": 7}  # fmt: skip
    assert {name: found[name].config_type for name in kinds} == kinds


def test_only_requested_keys_are_returned(node):
    assert sorted(configs(node, TOPIC, "t", ["retention.ms", "no.such", "flush.ms"])) == ["flush.ms", "retention.ms"]
    assert configs(node, TOPIC, "t", []).keys() == configs(node, TOPIC, "t").keys()


def synonyms_of(node, *given):
    ((_, config),) = configs(node, *given, synonyms=True).items()
    return [(each.name, each.value, each.source) for each in config.synonyms]


def test_synonyms_list_all_sources(node):
    assert synonyms_of(node, TOPIC, "t", ["cleanup.policy"]) == [
        ("cleanup.policy", "compact,delete", OF_TOPIC),
        ("log.cleanup.policy", "delete", DEFAULT),
    ]
    assert synonyms_of(node, TOPIC, "t", ["max.message.bytes"]) == [("message.max.bytes", "1048588", DEFAULT)]
    # A time that the broker knows in other units too has no default of its own name.
    assert synonyms_of(node, TOPIC, "t", ["retention.ms"])[0] == ("retention.ms", "5000", OF_TOPIC)


def test_the_properties_file_applies_to_topics_without_a_value(tmp_path):
    node = a_node(tmp_path / "log", log_retention_ms=7_200_000, message_max_bytes=5000)
    make_topic(node, "t")
    found = configs(node, TOPIC, "t", ["retention.ms", "max.message.bytes"], synonyms=True)
    shown = {name: (each.value, each.config_source) for name, each in found.items()}
    assert shown == {"retention.ms": ("7200000", OF_FILE), "max.message.bytes": ("5000", OF_FILE)}
    assert [(each.name, each.value, each.source) for each in found["max.message.bytes"].synonyms] == [
        ("message.max.bytes", "5000", OF_FILE),
        ("message.max.bytes", "1048588", DEFAULT),
    ]


def test_this_broker_is_described_under_its_id(node):
    found = configs(node, BROKER, str(node.cluster.node_id))
    assert found["num.partitions"].value == "1"
    assert (found["node.id"].value, found["node.id"].config_source, found["node.id"].read_only) == ("1", OF_FILE, True)
    assert found["auto.create.topics.enable"].value == "true"
    assert found["message.max.bytes"].value == "1048588"


def test_secrets_of_a_broker_are_not_shown(tmp_path):
    node = a_node(tmp_path / "log", ssl_key_password="hush")
    found = configs(node, BROKER, "1", ["ssl.key.password"])["ssl.key.password"]
    assert (found.value, found.is_sensitive) == (None, True)


@pytest.mark.parametrize("name", ["2", "x", "-1"])
def test_another_broker_id_is_refused(node, name):
    assert error_of(node, BROKER, name) == "invalid_request"


def test_without_cluster_settings_the_cluster_default_is_empty(node):
    assert configs(node, BROKER, "", ["num.partitions"]) == {}


def test_groups_have_default_settings(node):
    found = configs(node, GROUP, "g", synonyms=True)
    assert len(found) == 17
    told = {name: (found[name].value, found[name].config_source, found[name].config_type) for name in
            ("consumer.session.timeout.ms", "share.renew.acknowledge.enable", "share.isolation.level")}  # fmt: skip
    assert told == {
        "consumer.session.timeout.ms": ("45000", DEFAULT, 3),
        "share.renew.acknowledge.enable": ("true", DEFAULT, 1),
        "share.isolation.level": ("read_uncommitted", DEFAULT, 2),
    }
    assert synonyms_of(node, GROUP, "g", ["consumer.session.timeout.ms"]) == [
        ("group.consumer.session.timeout.ms", "45000", DEFAULT)
    ]
    assert error_of(node, GROUP, "") == "invalid_request"


def test_group_settings_are_shown_parsed_with_the_brokers_as_synonym(tmp_path):
    node = a_node(tmp_path / "log", group_consumer_session_timeout_ms=50_000)
    change = {"name": "consumer.session.timeout.ms", "config_operation": 0, "value": " 046000 "}
    resources = [{"resource_type": GROUP, "resource_name": "g", "configs": [change]}]
    (answer,) = ask(node, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources, validate_only=False).responses
    assert answer.error_code.name == "none"
    found = configs(node, GROUP, "g", ["consumer.session.timeout.ms"])["consumer.session.timeout.ms"]
    assert (found.value, found.config_source) == ("46000", 8)
    assert synonyms_of(node, GROUP, "g", ["consumer.session.timeout.ms"]) == [
        ("consumer.session.timeout.ms", "46000", 8),
        ("group.consumer.session.timeout.ms", "50000", OF_FILE),
        ("group.consumer.session.timeout.ms", "45000", DEFAULT),
    ]
    assert (
        configs(node, GROUP, "other", ["consumer.session.timeout.ms"])["consumer.session.timeout.ms"].value == "50000"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [("nowhere", "unknown_topic_or_partition"), ("a b", "invalid_topic_exception"), ("", "invalid_topic_exception")],
)
def test_a_missing_topic_is_distinguished_from_an_invalid_name(node, name, expected):
    assert error_of(node, TOPIC, name) == expected


@pytest.mark.parametrize("kind", [0, 1, 3, 99, -1])
def test_other_kinds_of_resources_have_no_settings(node, kind):
    assert error_of(node, kind, "x") == "invalid_request"


def test_each_resource_is_answered_separately(node):
    found = look(
        node, resource(TOPIC, "nowhere"), resource(TOPIC, "t", ["flush.ms"]), resource(BROKER, "1", ["node.id"])
    )
    assert {each.resource_name: (each.error_code.name, len(each.configs)) for each in found} == {
        "nowhere": ("unknown_topic_or_partition", 0),
        "t": ("none", 1),
        "1": ("none", 1),
    }
    assert look(node) == ()


def test_documentation_is_returned_on_request(node):
    assert configs(node, BROKER, "1", ["num.partitions"])["num.partitions"].documentation is None
    assert configs(node, BROKER, "1", ["num.partitions"], text=True)["num.partitions"].documentation


def test_describing_settings_needs_describe_configs_access(tmp_path):
    node = a_guarded_node(tmp_path / "log")
    make_topic(node, "t")
    cases = [
        ((TOPIC, "t"), "topic_authorization_failed", (ResourceType.TOPIC, "t")),
        ((BROKER, "1"), "cluster_authorization_failed", (ResourceType.CLUSTER, CLUSTER_NAME)),
        ((GROUP, "g"), "group_authorization_failed", (ResourceType.GROUP, "g")),
    ]
    for asked, refused, right in cases:
        assert error_of(node, *asked, principal=EVE) == refused
        allow(node, EVE, Operation.DESCRIBE_CONFIGS, *right)
        assert error_of(node, *asked, principal=EVE) == "none"
    assert error_of(node, TOPIC, "nowhere", principal=EVE) == "topic_authorization_failed"
