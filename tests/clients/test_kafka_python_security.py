"""kafka-python: TLS and logins."""

import pytest
from kafka.errors import KafkaError, KafkaTimeoutError, SaslAuthenticationFailedError, TopicAuthorizationFailedError
from support.brokers.reachable_broker import PEMS
from support.clients.kafka_python_clients import a_producer, an_admin, make_topic, send, values_of, write

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_logs_in_writes_and_reads(broker, listener, mechanism):
    topic = make_topic(broker)
    write(broker, topic, [mechanism.encode()], listener=listener, sasl_mechanism=mechanism)
    assert values_of(broker, topic, listener=listener, sasl_mechanism=mechanism) == [mechanism.encode()]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "wrong", [{"sasl_plain_password": "guess"}, pytest.param({"sasl_plain_username": "nobody"}, marks=pytest.mark.long)]
)
def test_a_wrong_login_is_refused(broker, mechanism, wrong):
    # This client (3.0) retries until its timeout and then does not report why the broker refused.
    with pytest.raises((KafkaTimeoutError, SaslAuthenticationFailedError)):
        an_admin(broker, "SASL_PLAINTEXT", sasl_mechanism=mechanism, bootstrap_timeout_ms=500, **wrong).__enter__()


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
def test_the_brokers_certificate_is_verified(broker, listener):
    topic = make_topic(broker)
    write(broker, topic, [b"v"], listener=listener)
    assert values_of(broker, topic, listener=listener) == [b"v"]
    given = {"ssl_cafile": str(PEMS / "stranger.pem"), "bootstrap_timeout_ms": 500}
    with pytest.raises(KafkaError), an_admin(broker, listener, **given) as admin:
        admin.list_topics()


def test_large_requests_and_answers_pass_through_tls(broker):
    topic = make_topic(broker)
    sent = [bytes([n]) * 100_000 for n in range(20)]
    write(broker, topic, sent, listener="SASL_SSL", linger_ms=20, batch_size=500_000)
    assert values_of(broker, topic, listener="SASL_SSL") == sent


def test_a_client_certificate_is_a_login(broker):
    """Mutual TLS: a client with a certificate is User:CN=ann, who has no access rule; one without is anonymous."""
    topic = make_topic(broker)
    shown = {"ssl_certfile": str(PEMS / "client.pem"), "ssl_keyfile": str(PEMS / "client.pem")}
    with (
        a_producer(broker, "SSL", max_block_ms=5000, **shown) as producer,
        pytest.raises(TopicAuthorizationFailedError),
    ):
        send(producer, topic, [b"v"])
    write(broker, topic, [b"v"], listener="SSL")
    assert values_of(broker, topic) == [b"v"]
