import pytest

from broker_core.broker.settings.listener_security import listener_login, listener_tls

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
KEY = {"ssl.keystore.location": "/k.pem"}


def complaints_of(function, given):
    complaints = []
    function(given, "INSIDE", complaints)
    return complaints


def test_certificates_come_from_files_or_inline_settings():
    complaints = []
    tls = listener_tls(
        {"ssl.keystore.key": "K", "ssl.keystore.certificate.chain": "C", "ssl.truststore.certificates": "T",
         "ssl.key.password": "P", "ssl.client.auth": "required", "ssl.enabled.protocols": "TLSv1.3"},
        "INSIDE",
        complaints,
    )  # fmt: skip
    assert not complaints
    identity = tls.identity
    assert (identity.key_pem, identity.certificates_pem, identity.trust_pem, identity.key_password) == (
        "K",
        "C",
        "T",
        "P",
    )
    assert (tls.client_auth, identity.versions) == ("required", ("TLSv1.3",))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "uses TLS but has no certificate: set ssl.keystore.location"),
        ({"ssl.keystore.key": "K"}, "must be set together"),
        (KEY | {"ssl.keystore.type": "jks"}, "ssl.keystore.type must be PEM, not JKS"),
        (KEY | {"ssl.truststore.type": "PKCS12"}, "ssl.truststore.type must be PEM, not PKCS12"),
        (KEY | {"ssl.keystore.password": "p"}, "ssl.keystore.password does not apply to PEM"),
        (KEY | {"ssl.keystore.key": "K", "ssl.keystore.certificate.chain": "C"}, "set only one"),
        (KEY | {"ssl.client.auth": "required"}, "set ssl.truststore.location"),
        (KEY | {"ssl.principal.mapping.rules": "RULE"}, "is not a rule"),
    ],
)
def test_tls_errors_name_the_listener(given, said):
    complaints = complaints_of(listener_tls, given)
    assert len(complaints) == 1
    assert said in complaints[0]


def test_plain_users_are_set_per_mechanism_or_per_listener():
    given = {"sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN", "sasl.jaas.config": f'{PLAIN} user_a="1";'}
    login = listener_login(given, "INSIDE", [])
    assert (login.mechanisms, login.plain_users) == (("SCRAM-SHA-512", "PLAIN"), {"a": "1"})
    login = listener_login(given | {"plain.sasl.jaas.config": f'{PLAIN} user_b="2";'}, "INSIDE", [])
    assert login.plain_users == {"b": "2"}
    assert '"2"' not in repr(login)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "requires SASL: set sasl.enabled.mechanisms"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "PLAIN is enabled but has no users"),
        ({"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": "x"}, "must be of the form"),
    ],
)
def test_login_errors_name_the_listener(given, said):
    complaints = complaints_of(listener_login, given)
    assert len(complaints) == 1
    assert said in complaints[0]
    assert "INSIDE" in complaints[0]


def test_scram_users_come_from_the_metadata_log():
    assert complaints_of(listener_login, {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}) == []
