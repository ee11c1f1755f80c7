"""aiokafka: TLS and logins."""

import pytest
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from support.clients.aiokafka_clients import a_producer, an_admin, in_a_loop, make_topic, send, values_of, write

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@in_a_loop
async def test_a_user_logs_in_writes_and_reads(broker, listener, mechanism):
    topic = await make_topic(broker)
    await write(broker, topic, [mechanism.encode()], listener=listener, sasl_mechanism=mechanism)
    assert await values_of(broker, topic, listener=listener, sasl_mechanism=mechanism) == [mechanism.encode()]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("wrong", [{"sasl_plain_password": "guess"}, {"sasl_plain_username": "nobody"}])
@in_a_loop
async def test_a_wrong_login_is_refused(broker, caplog, mechanism, wrong):
    with pytest.raises(KafkaConnectionError):
        async with an_admin(broker, "SASL_PLAINTEXT", sasl_mechanism=mechanism, **wrong):
            pass
    # This client shows the reason in its log only.
    assert "uthentication failed" in caplog.text


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
@in_a_loop
async def test_the_brokers_certificate_is_verified(broker, listener):
    topic = await make_topic(broker)
    await write(broker, topic, [b"v"], listener=listener)
    assert await values_of(broker, topic, listener=listener) == [b"v"]
    with pytest.raises(KafkaConnectionError):
        async with an_admin(broker, listener, trusted="stranger.pem"):
            pass


@in_a_loop
async def test_large_requests_and_answers_pass_through_tls(broker):
    topic, sent = await make_topic(broker), [bytes([n]) * 100_000 for n in range(20)]
    await write(broker, topic, sent, listener="SASL_SSL", linger_ms=20, max_batch_size=500_000)
    assert await values_of(broker, topic, listener="SASL_SSL") == sent


@in_a_loop
async def test_a_client_certificate_is_a_login(broker):
    """Mutual TLS: a client with a certificate is User:CN=ann, who has no access rule; one without is anonymous."""
    topic = await make_topic(broker)
    async with a_producer(broker, "SSL", shown="client.pem") as producer:
        with pytest.raises(TopicAuthorizationFailedError):
            await send(producer, topic, [b"v"])
    await write(broker, topic, [b"v"], listener="SSL")
    assert await values_of(broker, topic) == [b"v"]
