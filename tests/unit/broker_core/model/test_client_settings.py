import pickle

import pytest

from broker_core.model.client_settings import (
    CLIENT_SETTING_NAMES,
    BrokerAddress,
    ClientSettings,
    SaslSettings,
    TlsSettings,
    parse_client_settings,
)
from broker_core.model.exceptions import InvalidConfigError

PEM = "-----BEGIN CERTIFICATE-----"


def parse(**given):
    named = {name.replace("__", "."): value for name, value in given.items()}
    return parse_client_settings({"bootstrap.servers": "a:9092"} | named)


def complaints_of(**given):
    with pytest.raises(InvalidConfigError) as caught:
        parse(**given)
    assert caught.value.message == "; ".join(caught.value.complaints)
    return caught.value.complaints


def test_bootstrap_servers_is_the_only_required_setting():
    assert parse() == ClientSettings(bootstrap_servers=(BrokerAddress(host="a", port=9092),))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        (" a.b-c.example:65535 , ", [("a.b-c.example", 65535)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("PLAINTEXT://a:9092", [("a", 9092)]),
        ("ünï.example:9", [("ünï.example", 9)]),
    ],
)
def test_bootstrap_addresses_are_parsed(text, found):
    settings = parse(bootstrap__servers=text)
    assert [(address.host, address.port) for address in settings.bootstrap_servers] == found


@pytest.mark.parametrize(
    "text", ["a", "a:", ":1", "a:0", "a:65536", "a:b", "a:1:2", "a b:1", "http://a/b:1", "a:1;b:2"]
)
def test_an_invalid_address_is_refused(text):
    assert complaints_of(bootstrap__servers=text) == (
        f"bootstrap.servers must be host:port, separated by commas, not {text!r}",
    )


@pytest.mark.parametrize("text", ["", " , "])
def test_missing_bootstrap_servers_are_refused(text):
    assert "bootstrap.servers is empty" in complaints_of(bootstrap__servers=text)[0]


def test_addresses_are_formatted_as_they_were_given():
    assert str(parse(bootstrap__servers="a:1,[::1]:2")) == "a:1,[::1]:2"


def test_durations_are_read_by_kafkas_names():
    settings = parse(request__timeout__ms="5", default__api__timeout__ms="6", retry__backoff__max__ms="7")
    assert (settings.request_timeout_ms, settings.api_timeout_ms, settings.retry_backoff_max_ms) == (5, 6, 7)
    for wrong in ("0", "-1", "x", "1.5", str(2**31)):
        assert "request.timeout.ms must be a whole number" in complaints_of(request__timeout__ms=wrong)[0]


def test_a_login_is_given_by_username_and_password_or_by_jaas_config():
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";'
    wanted = SaslSettings(mechanism="SCRAM-SHA-256", username="u", password="p")
    for given in ({"sasl__username": "u", "sasl__password": "p"}, {"sasl__jaas__config": jaas}):
        settings = parse(security__protocol="sasl_plaintext", sasl__mechanism="scram-sha-256", **given)
        assert settings.sasl == wanted
        assert settings.tls is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security.protocol": "TLS"}, "security.protocol must be one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL", "sasl.username": "u", "sasl.password": "p"}, "SCRAM-SHA-512 and is missing"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "not 'GSSAPI'"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u"}, "requires a login"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, "ssl.truststore.type must be PEM, not JKS"),
        ({"security.protocol": "SSL", "ssl.truststore.password": "x"}, "ssl.truststore.password does not apply to PEM"),
        ({"security.protocol": "SSL", "ssl.keystore.key": "x"}, "must be set together"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "x", "ssl.truststore.certificates": PEM},
            "set only one",
        ),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, "not 'TLSv1.1'"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldaps"}, "must be https or empty"),
        ({"sasl.password": "x"}, "sasl.password is ignored without security.protocol"),
        ({"ssl.truststore.location": "x"}, "ssl.truststore.location is ignored without security.protocol"),
        (
            {
                "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p",
                "sasl.jaas.config": "x",
            },
            "excludes sasl.username and sasl.password",
        ),
        (
            {
                "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config":
                'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";',
            },
            "does not fit sasl.mechanism=SCRAM-SHA-256",
        ),
    ],
)  # fmt: skip
def test_contradictory_settings_are_refused(given, said):
    with pytest.raises(InvalidConfigError, match=said):
        parse_client_settings({"bootstrap.servers": "a:1"} | given)


def test_all_errors_are_reported_at_once():
    assert len(complaints_of(bootstrap__servers="a", security__protocol="SSL", ssl__keystore__type="JKS")) == 2


def test_tls_settings_are_read():
    settings = parse(
        security__protocol="SSL", ssl__truststore__location="/ca.pem", ssl__keystore__location="/me.pem",
        ssl__key__password="pw", ssl__endpoint__identification__algorithm="", ssl__enabled__protocols="TLSv1.3",
    )  # fmt: skip
    assert settings.tls == TlsSettings(
        trust_path="/ca.pem", key_path="/me.pem", key_password="pw", verifies_host_name=False, versions=("TLSv1.3",)
    )


def test_the_repr_has_no_secrets_and_pickling_keeps_them():
    settings = parse(
        security__protocol="SASL_SSL", sasl__mechanism="PLAIN", sasl__username="u", sasl__password="topsecret",
        ssl__keystore__key="topsecret", ssl__keystore__certificate__chain="topsecret", ssl__key__password="topsecret",
    )  # fmt: skip
    assert "topsecret" not in repr(settings) + str(settings)
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert hash(settings) == hash(pickle.loads(pickle.dumps(settings)))


def test_unknown_client_settings_are_ignored():
    assert parse(group__id="x") == parse()
    assert "group.id" not in CLIENT_SETTING_NAMES
