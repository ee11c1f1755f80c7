import pytest
from kio.schema.errors import ErrorCode
from support.nodes.security_node import SecurityNode, ask

from broker_core.protocol.api_table import ApiKey

ALL = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip


@pytest.fixture
def node(tmp_path):
    made = SecurityNode(tmp_path)
    rules = [("t", 3, "User:a"), ("t", 3, "User:b"), ("t", 4, "User:a"), ("*", 3, "User:a")]
    creations = [
        {
            "resource_type": 2, "resource_name": name, "resource_pattern_type": pattern, "principal": principal,
            "host": "*", "operation": 3, "permission_type": 3,
        }
        for name, pattern, principal in rules
    ]  # fmt: skip
    ask(made, ApiKey.CREATE_ACLS, creations=creations)
    return made


def resources(answer):
    return [
        (resource.resource_name, resource.pattern_type, [acl.principal for acl in resource.acls])
        for resource in answer.resources
    ]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_grouped_by_resource(node, version):
    answer = ask(node, ApiKey.DESCRIBE_ACLS, version, **ALL)
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, "")
    assert resources(answer) == [("t", 3, ["User:a", "User:b"]), ("t", 4, ["User:a"]), ("*", 3, ["User:a"])]
    acl = answer.resources[0].acls[0]
    assert (answer.resources[0].resource_type, acl.host, acl.operation, acl.permission_type) == (2, "*", 3, 3)


def test_a_filter_omits_acls_that_do_not_match(node):
    answer = ask(node, ApiKey.DESCRIBE_ACLS, **ALL | {"principal_filter": "User:b"})
    assert resources(answer) == [("t", 3, ["User:b"])]
    answer = ask(node, ApiKey.DESCRIBE_ACLS, **ALL | {"resource_name_filter": "tx", "pattern_type_filter": 2})
    assert resources(answer) == [("t", 4, ["User:a"]), ("*", 3, ["User:a"])]


def test_a_filter_of_a_newer_kafka_matches_nothing(node):
    answer = ask(node, ApiKey.DESCRIBE_ACLS, **ALL | {"operation": 99})
    assert (answer.error_code, answer.resources) == (ErrorCode.none, ())


def test_without_an_authorizer_security_is_disabled(tmp_path):
    answer = ask(SecurityNode(tmp_path, has_authorizer=False), ApiKey.DESCRIBE_ACLS, **ALL)
    assert answer.error_code == ErrorCode.security_disabled
    assert answer.error_message == "No Authorizer is configured on the broker"
