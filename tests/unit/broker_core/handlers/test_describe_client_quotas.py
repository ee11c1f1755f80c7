import pytest
from kio.schema.errors import ErrorCode
from support.nodes.security_node import SecurityNode, ask

from broker_core.protocol.api_table import ApiKey

EXACT, DEFAULT, SPECIFIED = range(3)


def component(entity_type, match_type, match=None):
    return {"entity_type": entity_type, "match_type": match_type, "match": match}


def described(tmp_path, *components, **given):
    node = SecurityNode(tmp_path)
    return ask(node, ApiKey.DESCRIBE_CLIENT_QUOTAS, components=components, strict=False, **given)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "components",
    [
        [],
        [component("user", EXACT, "x")],
        [component("user", DEFAULT), component("client-id", SPECIFIED)],
        [component("ip", SPECIFIED)],
    ],
)
def test_there_are_no_quotas(tmp_path, version, components):
    answer = described(tmp_path, *components, version=version)
    assert (answer.error_code, answer.error_message, answer.entries) == (ErrorCode.none, "", ())


QUOTAS = {
    "user=ann": [("user", "ann")],
    "user=default": [("user", None)],
    "user=ann client-id=etl": [("user", "ann"), ("client-id", "etl")],
    "client-id=etl": [("client-id", "etl")],
    "ip=10.0.0.1": [("ip", "10.0.0.1")],
}


@pytest.fixture
def node_with_quotas(tmp_path):
    node = SecurityNode(tmp_path)
    entries = []
    for name, entity in QUOTAS.items():
        key = "connection_creation_rate" if name.startswith("ip") else "request_percentage"
        named = [{"entity_type": kind, "entity_name": each} for kind, each in entity]
        entries.append({"entity": named, "ops": [{"key": key, "value": 7.0, "remove": False}]})
    ask(node, ApiKey.ALTER_CLIENT_QUOTAS, entries=entries, validate_only=False)
    return node


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, set(QUOTAS)),
        ([], True, set()),
        ([component("user", EXACT, "ann")], False, {"user=ann", "user=ann client-id=etl"}),
        ([component("user", EXACT, "ann")], True, {"user=ann"}),
        ([component("user", DEFAULT)], True, {"user=default"}),
        ([component("user", SPECIFIED)], True, {"user=ann", "user=default"}),
        ([component("user", SPECIFIED), component("client-id", SPECIFIED)], False, {"user=ann client-id=etl"}),
        ([component("client-id", EXACT, "web")], False, set()),
        ([component("ip", SPECIFIED)], False, {"ip=10.0.0.1"}),
    ],
)  # fmt: skip
def test_a_filter_finds_entities_by_type_and_name(node_with_quotas, components, strict, found):
    answer = ask(node_with_quotas, ApiKey.DESCRIBE_CLIENT_QUOTAS, components=components, strict=strict)
    names = {
        " ".join(f"{part.entity_type}={part.entity_name or 'default'}" for part in sorted(
            entry.entity, key=lambda part: part.entity_type, reverse=True))
        for entry in answer.entries
    }  # fmt: skip
    assert names == found
    assert all(value.value == 7.0 for entry in answer.entries for value in entry.values)


# What Kafka 4.3.1 answers to these.
@pytest.mark.parametrize(
    ("components", "error", "message"),
    [
        ([component("user", EXACT)], "invalid_request",
         "Request specified MATCH_TYPE_EXACT, but set match string to null."),
        ([component("user", DEFAULT, "x")], "invalid_request",
         "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
        ([component("user", SPECIFIED, "x")], "invalid_request",
         "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."),
        ([component("user", 3)], "invalid_request", "Unknown match type 3"),
        ([component("", EXACT, "x")], "invalid_request", "Invalid empty entity type."),
        ([component("user", SPECIFIED), component("user", DEFAULT)], "invalid_request",
         "Entity type user cannot appear more than once in the filter."),
        ([component("ip", SPECIFIED), component("client-id", SPECIFIED)], "invalid_request",
         "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
         "filter component."),
        ([component("user", SPECIFIED), component("nation", 7)], "unsupported_version",
         "Unsupported entity type nation"),
    ],
)  # fmt: skip
def test_a_contradictory_filter_is_refused(tmp_path, components, error, message):
    answer = described(tmp_path, *components)
    assert (answer.error_code.name, answer.error_message, answer.entries) == (error, message, None)


def test_describing_quotas_needs_describe_configs_access_to_the_cluster(tmp_path):
    answer = described(tmp_path, principal="User:eve")
    assert answer.error_code == ErrorCode.cluster_authorization_failed
