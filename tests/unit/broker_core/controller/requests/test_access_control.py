"""Access rules at the controllers: directly, and forwarded by a broker for a client."""

import pytest
from kio.schema.errors import ErrorCode
from support.controller.small_cluster import SmallCluster

from broker_core.controller.requests.envelope import ENVELOPE, forwarded_api, request_in
from broker_core.controller.requests.registry import CONTROLLER_APIS
from broker_core.model.exceptions import RequestRefusedError
from broker_core.protocol.api_table import message_types
from broker_core.protocol.connection import ClientSide
from broker_core.protocol.message_builder import build
from broker_core.protocol.message_writer import encode

DESCRIBE, CREATE, DELETE = 29, 30, 31
ALLOW, READ, ALTER, ANY = 3, 3, 7, 1
TOPIC, CLUSTER, LITERAL = 2, 4, 3


@pytest.fixture
def cluster():
    return SmallCluster(1)


def rule(principal="User:alice", *, kind=TOPIC, name="t", operation=READ, host="*"):
    return {
        "resource_type": kind, "resource_name": name, "resource_pattern_type": LITERAL, "principal": principal,
        "host": host, "operation": operation, "permission_type": ALLOW,
    }  # fmt: skip


def filter_of(**fields):
    return {
        "resource_type_filter": ANY, "resource_name_filter": None, "pattern_type_filter": ANY,
        "principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY, **fields,
    }  # fmt: skip


def asked(cluster, key, values):
    message = build(message_types(key, 3).request, values)
    api = CONTROLLER_APIS[key]
    cluster.carry_out(cluster.controller.request(9, lambda active, now_ms: api.plan(active, message, now_ms), 0))
    return build(message_types(key, 3).response, cluster.answers.pop(9))


def principals(cluster, **fields):
    answer = asked(cluster, DESCRIBE, filter_of(**fields))
    return sorted(acl.principal for resource in answer.resources for acl in resource.acls)


def test_rules_are_stored_described_and_deleted(cluster):
    created = asked(cluster, CREATE, {"creations": [rule(), rule("User:bob"), rule("User:bob")]})
    assert [each.error_code for each in created.results] == [ErrorCode.none] * 3
    assert principals(cluster) == ["User:alice", "User:bob"]
    assert principals(cluster, principal_filter="User:bob") == ["User:bob"]
    deleted = asked(cluster, DELETE, {"filters": [filter_of(principal_filter="User:bob")]})
    assert [acl.principal for acl in deleted.filter_results[0].matching_acls] == ["User:bob"]
    assert principals(cluster) == ["User:alice"]


def test_a_rule_that_is_none_is_refused_by_itself(cluster):
    created = asked(cluster, CREATE, {"creations": [rule(kind=CLUSTER, name="mine"), rule(name=""), rule()]})
    assert [(each.error_code.name, each.error_message) for each in created.results] == [
        ("invalid_request", "The only valid name for the CLUSTER resource is kafka-cluster"),
        ("invalid_request", "Invalid empty resource name"),
        ("none", ""),
    ]
    assert len(principals(cluster)) == 1


# Forwarded


def principal_data(name, kind="User"):
    schema = __import__("kio.schema.default_principal_data.v0.data", fromlist=["data"])
    message = build(schema.DefaultPrincipalData, {"type_": kind, "name": name, "token_authenticated": False})
    return b"\0\0" + b"".join(bytes(part) for part in encode(message))


def forward(cluster, values, *, principal, host=b"\x7f\0\0\1", key=CREATE):
    side = ClientSide(client_id="client", max_frame_bytes=10**6)
    side.send_request(build(message_types(key, 3).request, values))
    content = b"".join(bytes(part) for part in side.data_to_send())[4:]
    fields = {"request_data": content, "request_principal": principal, "client_host_address": host}
    inner = request_in(build(message_types(ENVELOPE, 0).request, fields))
    api = forwarded_api(inner)
    return cluster.controller.request(9, lambda active, now_ms: api.plan(active, inner.message, now_ms), 0)


def test_a_client_of_a_broker_needs_a_rule_for_alter_on_the_cluster(cluster):
    mallory, admin = principal_data("mallory"), principal_data("admin")
    for principal in (mallory, admin):
        with pytest.raises(RequestRefusedError, match="needs an access rule for ALTER on the cluster") as refused:
            forward(cluster, {"creations": [rule("User:mallory")]}, principal=principal)
        assert refused.value.error_code is ErrorCode.cluster_authorization_failed
    allowing = rule("User:admin", kind=CLUSTER, name="kafka-cluster", operation=ALTER, host="127.0.0.1")
    asked(cluster, CREATE, {"creations": [allowing]})
    cluster.carry_out(forward(cluster, {"creations": [rule("User:bob")]}, principal=admin))
    assert principals(cluster) == ["User:admin", "User:bob"]
    for principal, host in ((mallory, b"\x7f\0\0\1"), (admin, b"\x0a\0\0\1")):
        with pytest.raises(RequestRefusedError):
            forward(cluster, {"creations": [rule("User:mallory")]}, principal=principal, host=host)
    with pytest.raises(RequestRefusedError):
        forward(cluster, {"filters": [filter_of()]}, principal=mallory, key=DELETE)
    assert principals(cluster) == ["User:admin", "User:bob"]


@pytest.mark.parametrize("principal", [b"", b"\0\1", b"\0\0", b"\0\0\xff"])
def test_a_principal_that_cannot_be_read_is_refused(cluster, principal):
    with pytest.raises(RequestRefusedError) as refused:
        forward(cluster, {"creations": [rule()]}, principal=principal)
    assert refused.value.error_code is ErrorCode.principal_deserialization_failure


def test_an_address_that_is_none_is_refused(cluster):
    with pytest.raises(RequestRefusedError) as refused:
        forward(cluster, {"creations": [rule()]}, principal=principal_data("admin"), host=b"\1\2")
    assert refused.value.error_code is ErrorCode.invalid_request
