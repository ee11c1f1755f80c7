"""TLS and logins at a broker."""

from pathlib import Path

import pytest

from broker_core.model.exceptions import AuthenticationError, RemoteError

PEMS = Path(__file__).parents[1] / "golden" / "tls"


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_logs_in(broker, topic, listener, mechanism):
    with broker.client(listener, sasl__mechanism=mechanism) as client:
        assert topic in client.describe_topics([topic])


def test_a_login_in_the_form_of_kafkas_own_clients(broker, topic):
    settings = broker.settings("SASL_SSL")
    user, password = settings.pop("sasl.username"), settings.pop("sasl.password")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    settings["sasl.jaas.config"] = f'{module} required username="{user}" password="{password}";'
    from broker_core.client.cluster_client import open_remote
    from broker_core.model.client_settings import parse_client_settings

    with open_remote(parse_client_settings(settings)) as client:
        assert topic in client.describe_topics([topic])


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused(broker, mechanism):
    client = broker.client("SASL_PLAINTEXT", sasl__mechanism=mechanism, sasl__password="guess")
    with client, pytest.raises(AuthenticationError, match="login of 'ann'") as caught:
        client.describe_topics()
    assert "guess" not in caught.value.message


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL"])
def test_the_brokers_certificate_is_verified(broker, topic, listener):
    with broker.client(listener) as client:
        assert topic in client.describe_topics([topic])
    client = broker.client(listener, ssl__truststore__location=PEMS / "stranger.pem")
    with client, pytest.raises(AuthenticationError, match="certificate is not accepted"):
        client.describe_topics()


def test_the_client_presents_its_certificate(broker, topic):
    with broker.client("SSL", ssl__keystore__location=PEMS / "client.pem") as client:
        assert topic in client.describe_topics([topic])
    encrypted = {"ssl__keystore__location": PEMS / "client-encrypted.pem", "ssl__key__password": "opensesame"}
    with broker.client("SSL", **encrypted) as client:
        assert topic in client.describe_topics([topic])


@pytest.mark.parametrize(
    ("listener", "spoken"),
    [("SSL", "PLAINTEXT"), ("SASL_PLAINTEXT", "PLAINTEXT"), ("PLAINTEXT", "SSL"), ("PLAINTEXT", "SASL_PLAINTEXT")],
)
def test_a_client_with_the_wrong_security_protocol_fails_with_a_reason(broker, listener, spoken):
    settings = broker.settings(spoken, bootstrap__servers=broker.bootstrap(listener), default__api__timeout__ms=700)
    client = broker.client(spoken, **{name.replace(".", "__"): value for name, value in settings.items()})
    with client, pytest.raises(RemoteError) as caught:
        client.describe_topics()
    assert caught.value.message
