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
