import pytest
from support.nodes.whole_node import EVE, a_guarded_node, a_node, ask

from broker_core.protocol.api_table import ApiKey
from broker_core.protocol.served_versions import SERVED_VERSIONS


@pytest.fixture
def node(tmp_path):
    return a_node(tmp_path / "log")


def look(node, version=4, *, name="a-client", software_version="1.0", principal="User:ANONYMOUS"):
    fields = {"client_software_name": name, "client_software_version": software_version} if version >= 3 else {}
    return ask(node, ApiKey.API_VERSIONS, version, principal=principal, **fields)


@pytest.mark.parametrize("version", range(5))
def test_advertised_versions_are_the_served_ones(node, version):
    answer = look(node, version)
    announced = {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}
    assert answer.error_code.name == "none"
    assert dict(SERVED_VERSIONS).items() <= announced.items()


def test_finalized_features_are_returned(node):
    answer = look(node)
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    assert (finalized["group.version"], finalized["transaction.version"]) == (1, 2)
    assert (supported["group.version"], supported["transaction.version"]) == ((0, 1), (0, 2))
    assert supported["metadata.version"][0] == 7
    assert answer.finalized_features_epoch >= 0


def test_version_3_omits_features_with_minimum_version_0(node):
    told = {each.name: each.min_version for each in look(node, 3).supported_features}
    assert told
    assert min(told.values()) > 0


@pytest.mark.parametrize(
    ("name", "software_version", "expected"),
    [
        ("apache-kafka-java", "4.3.1", "none"),
        ("x", "1", "none"),
        ("a.b-c", "1.0-SNAPSHOT", "none"),
        ("", "1", "invalid_request"),
        ("x", "", "invalid_request"),
        ("-x", "1", "invalid_request"),
        ("x.", "1", "invalid_request"),
        ("a b", "1", "invalid_request"),
        ("x", "1 2", "invalid_request"),
        ("x_y", "1", "invalid_request"),
    ],
)
def test_client_software_names_are_validated_like_kafka(node, name, software_version, expected):
    answer = look(node, 3, name=name, software_version=software_version)
    assert answer.error_code.name == expected
    assert bool(answer.api_keys) == (expected == "none")


def test_api_versions_needs_no_access(tmp_path):
    assert look(a_guarded_node(tmp_path / "log"), principal=EVE).error_code.name == "none"
