"""confluent-kafka: TLS, logins and access rules."""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from support.brokers.reachable_broker import PEMS
from support.clients.confluent_clients import (
    QUIET,
    SECONDS,
    a_consumer,
    a_producer,
    an_admin,
    first_error,
    make_topic,
    send,
    values_of,
)

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_logs_in_writes_and_reads(broker, listener, mechanism):
    topic = make_topic(broker)
    login = {"sasl.mechanism": mechanism}
    send(a_producer(broker, listener, **login), topic, [mechanism.encode()])
    assert values_of(broker, topic, listener=listener, **login) == [mechanism.encode()]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("wrong", [{"sasl__password": "guess"}, {"sasl__username": "nobody"}])
def test_a_wrong_login_is_refused(broker, mechanism, wrong):
    error = first_error(broker, "SASL_PLAINTEXT", sasl__mechanism=mechanism, **wrong)
    assert error.code() == KafkaError._AUTHENTICATION
    assert "uthentication failed" in error.str()


def test_a_mechanism_that_is_not_enabled_is_refused(broker):
    error = first_error(
        broker, "SASL_PLAINTEXT", sasl__mechanism="OAUTHBEARER", oauth_cb=lambda _: ("t", time.time() + 99)
    )
    assert error.code() == KafkaError._AUTHENTICATION
    assert "handshake" in error.str().lower()


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
def test_the_brokers_certificate_is_verified(broker, listener):
    topic = make_topic(broker)
    send(a_producer(broker, listener), topic, [b"v"])
    assert values_of(broker, topic, listener=listener) == [b"v"]
    error = first_error(broker, listener, ssl__ca__location=str(PEMS / "stranger.pem"))
    # librdkafka reports either the failed handshake or the closed connection first.
    assert error.code() in (KafkaError._SSL, KafkaError._TRANSPORT)
    assert "certificate verify failed" in error.str()


def test_large_requests_and_answers_pass_through_tls(broker):
    topic = make_topic(broker)
    sent = [bytes([n]) * 100_000 for n in range(40)]
    send(a_producer(broker, "SASL_SSL", linger__ms=50), topic, sent)
    assert values_of(broker, topic, listener="SASL_SSL") == sent


def test_a_plaintext_client_at_a_tls_port_fails(broker):
    given = {"bootstrap.servers": broker.bootstrap("SSL")}
    assert first_error(broker, "PLAINTEXT", **given).code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
    with pytest.raises(KafkaException):
        an_admin(broker, "PLAINTEXT", **given, **QUIET).list_topics(timeout=1)


@pytest.fixture
def bob(broker):
    """The login of a user without access rules."""
    name, admin = broker.name("bob"), an_admin(broker)
    credential = UserScramCredentialUpsertion(name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"sesame")
    admin.alter_user_scram_credentials([credential])[name].result(SECONDS)
    return {"sasl.username": name, "sasl.password": "sesame"}


def a_rule(login, resource, name, operation, permission=AclPermissionType.ALLOW, pattern=ResourcePatternType.LITERAL):
    return AclBinding(resource, name, pattern, f"User:{login['sasl.username']}", "*", operation, permission)


def allow(broker, *rules):
    admin = an_admin(broker)
    for made in admin.create_acls(list(rules)).values():
        made.result(SECONDS)


def code_of_write(broker, topic, login):
    codes = []
    producer = a_producer(broker, "SASL_PLAINTEXT", **login, **QUIET)
    producer.produce(topic, b"v", on_delivery=lambda error, _: codes.append(error and error.code()))
    assert producer.flush(SECONDS) == 0
    return codes[0]


def test_producing_is_refused_until_a_rule_allows_it(broker, bob):
    topic = make_topic(broker)
    assert code_of_write(broker, topic, bob) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(broker, a_rule(bob, ResourceType.TOPIC, topic, AclOperation.WRITE))
    assert code_of_write(broker, topic, bob) is None
    assert values_of(broker, topic) == [b"v"]
    allow(broker, a_rule(bob, ResourceType.TOPIC, topic, AclOperation.WRITE, AclPermissionType.DENY))
    assert code_of_write(broker, topic, bob) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert values_of(broker, topic) == [b"v"]


def test_consuming_in_a_group_needs_a_rule_for_the_topic_and_one_for_the_group(broker, bob):
    topic, group = make_topic(broker), broker.name("g")
    send(a_producer(broker), topic, [b"v"])

    def read():
        reader = a_consumer(broker, group, "SASL_PLAINTEXT", **bob, **QUIET)
        reader.subscribe([topic])
        message = reader.poll(SECONDS)
        reader.close()
        return message.error().code() if message.error() else message.value()

    prefixed = {"pattern": ResourcePatternType.PREFIXED}
    assert read() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
    allow(broker, a_rule(bob, ResourceType.TOPIC, topic[:-1], AclOperation.READ, **prefixed))
    assert read() == KafkaError.GROUP_AUTHORIZATION_FAILED
    allow(broker, a_rule(bob, ResourceType.GROUP, group, AclOperation.READ))
    assert read() == b"v"


def test_a_user_without_a_rule_neither_sees_nor_creates_a_topic(broker, bob):
    topic, name = make_topic(broker), broker.name()
    admin = an_admin(broker, "SASL_PLAINTEXT", **bob)
    new = [NewTopic(name, num_partitions=1, replication_factor=1)]
    assert topic not in admin.list_topics(timeout=SECONDS).topics
    for refused in (admin.create_topics(new)[name], admin.delete_topics([topic])[topic]):
        with pytest.raises(KafkaException) as caught:
            refused.result(SECONDS)
        assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(broker, a_rule(bob, ResourceType.TOPIC, name, AclOperation.CREATE))
    allow(broker, a_rule(bob, ResourceType.TOPIC, name, AclOperation.DESCRIBE))
    admin.create_topics(new)[name].result(SECONDS)
    found = admin.list_topics(timeout=SECONDS).topics
    assert name in found
    assert topic not in found


def test_only_users_who_may_alter_the_cluster_change_rules_and_users(broker, bob):
    admin = an_admin(broker, "SASL_PLAINTEXT", **bob)
    rule = a_rule(bob, ResourceType.TOPIC, "mine", AclOperation.ALL)
    with pytest.raises(KafkaException) as caught:
        admin.create_acls([rule])[rule].result(SECONDS)
    assert caught.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    deletion = UserScramCredentialDeletion("ann", ScramMechanism.SCRAM_SHA_512)
    with pytest.raises(KafkaException) as caught:
        admin.alter_user_scram_credentials([deletion])["ann"].result(SECONDS)
    assert caught.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    assert an_admin(broker, "SASL_PLAINTEXT").list_topics(timeout=SECONDS).cluster_id


def test_a_client_certificate_is_a_login(broker):
    """Mutual TLS: a client with a certificate is User:CN=ann, who is no super user; one without is anonymous."""
    topic = make_topic(broker)
    shown = {
        "ssl.certificate.location": str(PEMS / "client.pem"),
        "ssl.key.location": str(PEMS / "client.pem"),
    }
    refused = []
    producer = a_producer(broker, "SSL", **shown, **QUIET)
    producer.produce(topic, b"v", on_delivery=lambda error, _: refused.append(error.code()))
    assert producer.flush(SECONDS) == 0
    assert refused == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    allow(broker, a_rule({"sasl.username": "CN=ann"}, ResourceType.TOPIC, topic, AclOperation.WRITE))
    send(a_producer(broker, "SSL", **shown), topic, [b"v"])
    assert values_of(broker, topic) == [b"v"]
