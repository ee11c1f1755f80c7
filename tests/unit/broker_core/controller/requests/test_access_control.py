"""Access rules at the controllers: directly, and forwarded by a broker for a client."""

import pytest
from kio.schema.errors import ErrorCode
from support.controller.small_cluster import SmallCluster

from broker_core.controller.requests.access import CLUSTER_NEEDS, Requester, screened
from broker_core.controller.requests.envelope import ENVELOPE, forwarded_api, request_in
from broker_core.controller.requests.registry import CONTROLLER_APIS
from broker_core.controller.requests.resource_screens import SCREENS
from broker_core.metadata.authorizer import Authorizer
from broker_core.model.exceptions import RequestRefusedError
from broker_core.protocol.api_table import message_types
from broker_core.protocol.connection import ClientSide
from broker_core.protocol.message_builder import build
from broker_core.protocol.message_writer import encode
from broker_core.server.quorum.quorum_answers import API_VERSIONS, LOGIN_APIS, SERVED_BY_CONTROLLERS

DESCRIBE, CREATE, DELETE = 29, 30, 31
ALLOW, READ, ALTER, ANY = 3, 3, 7, 1
CREATE_IT, DELETE_IT, DESCRIBE_IT, DESCRIBE_CONFIGS, ALTER_CONFIGS = 5, 6, 8, 10, 11
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
    """What the controller does for the client, by the rules that it has."""
    side = ClientSide(client_id="client", max_frame_bytes=10**6)
    side.send_request(build(message_types(key, 3).request, values))
    content = b"".join(bytes(part) for part in side.data_to_send())[4:]
    fields = {"request_data": content, "request_principal": principal, "client_host_address": host}
    inner = request_in(build(message_types(ENVELOPE, 0).request, fields))
    requester = Requester(principal=inner.principal, host=inner.host, authorizer=authorizer_of(cluster))
    requester.require(key)
    api = forwarded_api(inner, screened(CONTROLLER_APIS[key], requester))
    return cluster.controller.request(9, lambda active, now_ms: api.plan(active, inner.message, now_ms), 0)


def authorizer_of(cluster, *super_users):
    return Authorizer(lambda: cluster.image.access_control, super_users=super_users)


def test_a_client_of_a_broker_needs_a_rule_for_alter_on_the_cluster(cluster):
    mallory, admin = principal_data("mallory"), principal_data("admin")
    for principal in (mallory, admin):
        with pytest.raises(RequestRefusedError, match="CreateAcls needs ALTER permission on the cluster") as refused:
            forward(cluster, {"creations": [rule("User:mallory")]}, principal=principal)
        assert refused.value.error_code is ErrorCode.cluster_authorization_failed
    allowing = rule("User:admin", kind=CLUSTER, name="kafka-cluster", operation=ALTER, host="127.0.0.1")
    asked(cluster, CREATE, {"creations": [allowing]})
    cluster.carry_out(forward(cluster, {"creations": [rule("User:bob")]}, principal=admin))
    # The address of a client of a listener with IPv4 and IPv6.
    mapped = b"\0" * 10 + b"\xff\xff\x7f\0\0\1"
    cluster.carry_out(forward(cluster, {"creations": [rule("User:bob")]}, principal=admin, host=mapped))
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


# Who asks


def asks(cluster, principal="User:ann", *super_users, is_ready=True):
    authorizer = authorizer_of(cluster, *super_users)
    return Requester(principal=principal, host="127.0.0.1", authorizer=authorizer, is_ready=is_ready)


def test_every_request_of_a_controller_needs_something():
    open_to_everyone = {API_VERSIONS, *LOGIN_APIS}
    assert CLUSTER_NEEDS.keys() | SCREENS.keys() | open_to_everyone >= SERVED_BY_CONTROLLERS.keys()
    assert not CLUSTER_NEEDS.keys() & SCREENS.keys()


def test_before_the_rules_are_known_only_super_users_may_do_something(cluster):
    asks(cluster, "User:root", "User:root", is_ready=False).require(CREATE)
    with pytest.raises(RequestRefusedError, match="not known to this controller yet") as refused:
        asks(cluster, "User:ann", "User:root", is_ready=False).require(CREATE)
    assert refused.value.error_code is ErrorCode.unknown_server_error


def test_without_an_authorizer_everything_is_allowed_but_there_are_no_rules():
    everyone = Requester(principal="User:ANONYMOUS", host="127.0.0.1", authorizer=None)
    for key in CLUSTER_NEEDS.keys() - {DESCRIBE, CREATE, DELETE}:
        everyone.require(key)
    for key in (DESCRIBE, CREATE, DELETE):
        with pytest.raises(RequestRefusedError, match="No Authorizer is configured") as refused:
            everyone.require(key)
        assert refused.value.error_code is ErrorCode.security_disabled


# Each topic and resource by itself


def allow(cluster, operation, name, *, kind=TOPIC, principal="User:ann"):
    asked(cluster, CREATE, {"creations": [rule(principal, kind=kind, name=name, operation=operation)]})


def screened_answer(cluster, key, version, values):
    message = build(message_types(key, version).request, values)
    api = screened(CONTROLLER_APIS[key], asks(cluster))
    cluster.carry_out(cluster.controller.request(9, lambda active, now_ms: api.plan(active, message, now_ms), 0))
    return build(message_types(key, version).response, cluster.answers.pop(9))


def test_topics_are_created_by_who_may_create_them_and_shown_to_who_may_see_their_settings(cluster):
    allow(cluster, CREATE_IT, "mine")
    allow(cluster, CREATE_IT, "seen")
    allow(cluster, DESCRIBE_CONFIGS, "seen")
    names = ("mine", "seen", "others", "twice", "twice")
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    answer = screened_answer(cluster, 19, 7, {"topics": topics, "timeout": 1000})
    found = {each.name: (each.error_code.name, each.num_partitions, bool(each.configs)) for each in answer.topics}
    assert found == {
        "mine": ("none", -1, False),
        "seen": ("none", 1, True),
        "others": ("topic_authorization_failed", -1, False),
        "twice": ("invalid_request", -1, False),
    }
    assert {"mine", "seen"} <= set(cluster.image.topics)
    assert "others" not in cluster.image.topics


def test_a_topic_that_may_not_be_described_looks_the_same_whether_it_exists_or_not(cluster):
    for name in ("hidden", "known", "mine"):
        cluster.create(name, (1,))
    allow(cluster, DESCRIBE_IT, "known")
    allow(cluster, DELETE_IT, "mine")
    allow(cluster, DESCRIBE_IT, "gone")
    by_name = [{"name": name} for name in ("hidden", "none", "known", "gone", "mine")]
    by_id = [{"topic_id": cluster.image.topics[name].topic_id} for name in ("hidden", "known")]
    answer = screened_answer(cluster, 20, 6, {"topics": by_name + by_id, "timeout": 1000})
    found = [(each.name, each.topic_id is not None, each.error_code.name) for each in answer.responses]
    assert sorted(found, key=str) == sorted(
        [
            ("hidden", False, "topic_authorization_failed"),
            ("none", False, "topic_authorization_failed"),
            ("known", False, "topic_authorization_failed"),
            ("gone", False, "unknown_topic_or_partition"),
            ("mine", True, "none"),
            (None, True, "topic_authorization_failed"),
            ("known", True, "topic_authorization_failed"),
        ],
        key=str,
    )
    assert {"hidden", "known"} <= set(cluster.image.topics)


def test_partitions_and_settings_are_changed_where_that_is_allowed(cluster):
    for name in ("mine", "others"):
        cluster.create(name, (1,))
    allow(cluster, ALTER, "mine")
    allow(cluster, ALTER_CONFIGS, "mine")
    topics = [{"name": name, "count": 2, "assignments": None} for name in ("mine", "others")]
    answer = screened_answer(cluster, 37, 3, {"topics": topics, "timeout": 1000, "validate_only": False})
    assert {each.name: each.error_code.name for each in answer.results} == {
        "mine": "none", "others": "topic_authorization_failed",
    }  # fmt: skip
    change = [{"name": "retention.ms", "config_operation": 0, "value": "7"}]
    places = ((TOPIC, "mine"), (TOPIC, "others"), (4, ""), (32, "group"))
    resources = [{"resource_type": kind, "resource_name": name, "configs": change} for kind, name in places]
    answer = screened_answer(cluster, 44, 1, {"resources": resources, "validate_only": True})
    assert [each.error_code.name for each in answer.responses] == [
        "none", "topic_authorization_failed", "cluster_authorization_failed", "group_authorization_failed",
    ]  # fmt: skip
    keys = [{"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in places[:3]]
    answer = screened_answer(cluster, 32, 4, {"resources": keys})
    assert [(each.error_code.name, bool(each.configs)) for each in answer.results] == [
        ("none", True), ("topic_authorization_failed", False), ("cluster_authorization_failed", False),
    ]  # fmt: skip
