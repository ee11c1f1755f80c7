"""Three nodes whose clients, brokers and controllers all connect by TLS and a login, with access rules."""

import logging
import time

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kio.schema.errors import ErrorCode
from support.brokers.cluster_in_process import ClusterInProcess
from support.brokers.reachable_broker import PEMS
from support.brokers.secured_nodes import LISTENER, NODE, USERS, plain_logins, secured_client_settings, secured_settings
from support.builders.builders import a_batch
from support.controller.request_values import FOR_CLUSTER, OF_BROKERS, message_of

from broker_core.client.connection_pool import ConnectionPool
from broker_core.client.deadline import Deadline
from broker_core.cluster import OffsetSpec
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.exceptions import AuthorizationError
from broker_core.model.identifiers import TopicPartition

SECONDS = 60
PATIENT = {
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "3000",
    "broker.session.timeout.ms": "2000",
}
"""Handshakes and logins of three nodes, on one loop of a busy machine."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    settings = {**secured_settings(), **PATIENT}
    given = {"settings": settings, "listener": LISTENER, "client_settings": secured_client_settings()}
    with ClusterInProcess(tmp_path_factory.mktemp("secured"), **given) as cluster:
        yield cluster


@pytest.fixture
def admin_of(cluster):
    def admin(user="admin"):
        return AdminClient(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": USERS[user],
                "ssl.ca.location": str(PEMS / "authority.pem"),
                "log_level": 0,
            }
        )

    return admin


def rule(user, operation, *, name="", kind=ResourceType.TOPIC, pattern=ResourcePatternType.LITERAL):
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def asked_as(cluster, user, address, message):
    given = {"bootstrap.servers": address, **secured_client_settings(user)}
    settings = parse_client_settings(given)
    pool = ConnectionPool(settings)
    try:
        connection = pool.connection(settings.bootstrap_servers[0], Deadline(30_000, setting="test"))
        (answer,) = connection.ask([message], Deadline(30_000, setting="test"))
    finally:
        pool.close()
    return answer


def test_a_user_may_do_what_the_rules_say_at_every_node(cluster, admin_of):
    admin = admin_of()
    admin.create_topics([NewTopic("ann-1", 1)])["ann-1"].result(SECONDS)
    ann = [cluster.client(only=node, sasl__username="ann", sasl__password=USERS["ann"]) for node in (1, 2, 3)]
    partition = TopicPartition("ann-1", 0)
    with pytest.raises(AuthorizationError):
        ann[0].append(partition, a_batch(records=1))
    prefixed = [
        rule("ann", operation, name="ann-", pattern=ResourcePatternType.PREFIXED)
        for operation in (AclOperation.WRITE, AclOperation.READ)
    ]
    for created in admin.create_acls(prefixed).values():
        created.result(SECONDS)

    def may_write(client):
        try:
            client.append(partition, a_batch(records=1))
        except AuthorizationError:
            return False
        return True

    for client in ann:
        wait_for(lambda client=client: may_write(client))
    assert ann[0].list_offsets({partition: OffsetSpec.LATEST})[partition].offset == len(ann)
    with pytest.raises(AuthorizationError):
        ann[0].create_topic("ann-2", partition_count=1)
    described = admin.describe_acls(
        AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, "User:ann", None, AclOperation.ANY, AclPermissionType.ANY
        )
    ).result(SECONDS)
    assert {each.operation for each in described} == {AclOperation.WRITE, AclOperation.READ}


def test_what_a_broker_sends_on_is_allowed_to_the_client_and_not_to_the_broker(admin_of):
    bob = admin_of("bob")
    ((_, created),) = bob.create_acls([rule("bob", AclOperation.ALL, name="*")]).items()
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        created.result(SECONDS)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        bob.create_topics([NewTopic("bobs", 1)])["bobs"].result(SECONDS)
    admin = admin_of()
    (allowed,) = admin.create_acls([rule("bob", AclOperation.CREATE, name="bobs")]).values()
    allowed.result(SECONDS)

    def may_create():
        try:
            bob.create_topics([NewTopic("bobs", 1)])["bobs"].result(SECONDS)
        except KafkaException:
            return False
        return True

    wait_for(may_create)


@pytest.mark.parametrize("name", sorted(FOR_CLUSTER))
def test_a_controller_answers_only_who_has_a_right_to_it(cluster, name):
    message = message_of(*FOR_CLUSTER[name])
    address = cluster.controllers[0]
    assert errors_of(asked_as(cluster, "ann", address, message)) == {ErrorCode.cluster_authorization_failed}
    assert ErrorCode.cluster_authorization_failed not in errors_of(asked_as(cluster, NODE, address, message))


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("Fetch of a replica", ErrorCode.topic_authorization_failed),
        ("WriteTxnMarkers", ErrorCode.cluster_authorization_failed),
        ("AddPartitionsToTxn of a broker", ErrorCode.cluster_authorization_failed),
    ],
)
def test_a_client_cannot_pretend_to_be_a_broker(cluster, name, refusal):
    client = cluster.client()
    if "t" not in client.describe_topics():
        client.create_topic("t", partition_count=1)
    message = message_of(*OF_BROKERS[name](client.describe_topics()["t"].topic_id))
    address = cluster.bootstrap_servers.split(",")[0]
    assert errors_of(asked_as(cluster, "ann", address, message)) - {ErrorCode.none} == {refusal}
    assert refusal not in errors_of(asked_as(cluster, NODE, address, message))


def test_a_node_with_a_wrong_login_says_so_once_for_each_node_and_joins_with_the_right_one(cluster, caplog):
    caplog.set_level(logging.WARNING, logger="broker_core.server.quorum.peer_dialer")
    cluster.stop(3)
    right = cluster.override("listener.name.controller.plain.sasl.jaas.config", plain_logins(password="wrong"))
    cluster.start_and_stop_alone(3)
    told = [record.message for record in caplog.records if record.name.endswith("peer_dialer")]
    # Of two other controllers; and of its own, if it last knew itself as the leader.
    assert 1 <= len(told) == len(set(told)) <= 3, told
    assert all(f"login of '{NODE}' by PLAIN: Authentication failed" in message for message in told)
    cluster.override("listener.name.controller.plain.sasl.jaas.config", right)
    cluster.start(3)


@pytest.mark.long
def test_the_cluster_goes_on_when_a_node_is_killed_and_it_comes_back(cluster):
    client = cluster.client()
    client.create_topic("kept", partition_count=3)
    partitions = [TopicPartition("kept", number) for number in range(3)]
    cluster.kill(cluster.controller_id())
    for partition in partitions:
        client.append(partition, a_batch(records=2))
    (gone,) = {1, 2, 3} - set(cluster.servers)
    cluster.start(gone)
    ends = client.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    assert [ends[partition].offset for partition in partitions] == [2, 2, 2]


def errors_of(value):
    found = set()
    for name in getattr(value, "__dataclass_fields__", ()):
        part = getattr(value, name)
        found |= {part} if isinstance(part, ErrorCode) else set()
        for each in part if isinstance(part, tuple) else (part,):
            found |= errors_of(each)
    return found
