import pytest
from support.nodes.security_node import SecurityNode, ask, codes

from broker_core.protocol.api_table import ApiKey

CREATIONS = [
    {
        "resource_type": 2, "resource_name": name, "resource_pattern_type": 3, "principal": "User:a", "host": "*",
        "operation": 3, "permission_type": 3,
    }
    for name in ("t", "u")
]  # fmt: skip


def a_filter(**parts):
    return {
        "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
        "host_filter": None, "operation": 1, "permission_type": 1,
    } | parts  # fmt: skip


@pytest.fixture
def node(tmp_path):
    made = SecurityNode(tmp_path)
    ask(made, ApiKey.CREATE_ACLS, creations=CREATIONS)
    return made


@pytest.mark.parametrize("version", [1, 2, 3])
def test_matching_acls_are_returned_and_deleted(node, version):
    answer = ask(
        node,
        ApiKey.DELETE_ACLS,
        version,
        filters=[a_filter(resource_name_filter="t"), a_filter(resource_name_filter="x"), a_filter(operation=99)],
    )
    assert codes(answer.filter_results) == [("none", None), ("none", None), ("invalid_request", "Unknown entryFilter.")]
    assert [[acl.resource_name for acl in result.matching_acls] for result in answer.filter_results] == [["t"], [], []]
    acl = answer.filter_results[0].matching_acls[0]
    assert (acl.pattern_type, acl.principal, acl.operation, acl.permission_type) == (3, "User:a", 3, 3)
    assert [rule.resource_name for rule in node.topics.image.access_control.rules.values()] == ["u"]
    assert node.image_from_the_log().access_control == node.topics.image.access_control


def test_deleting_acls_needs_alter_access_to_the_cluster(node):
    answer = ask(node, ApiKey.DELETE_ACLS, principal="User:eve", filters=[a_filter()])
    assert codes(answer.filter_results) == [("cluster_authorization_failed", "Cluster authorization failed.")]
    assert len(node.topics.image.access_control.rules) == 2


def test_without_an_authorizer_security_is_disabled(tmp_path):
    answer = ask(SecurityNode(tmp_path, has_authorizer=False), ApiKey.DELETE_ACLS, filters=[a_filter()])
    assert codes(answer.filter_results) == [("security_disabled", "No Authorizer is configured.")]
