import ssl
from pathlib import Path

import pytest

from broker_core.model.client_settings import TlsSettings
from broker_core.model.exceptions import AuthenticationError
from broker_core.tls.client_context import client_tls_context

PEMS = Path(__file__).parents[3] / "golden" / "tls"
KEY_AND_CERTIFICATE = (PEMS / "client.pem").read_text()
KEY, CERTIFICATE = KEY_AND_CERTIFICATE.split("-----BEGIN CERTIFICATE-----")
CERTIFICATE = f"-----BEGIN CERTIFICATE-----{CERTIFICATE}"
AUTHORITY = (PEMS / "authority.pem").read_text()


def trusted_names(context):
    return [dict(part[0] for part in found["subject"])["commonName"] for found in context.get_ca_certs()]


def test_a_brokers_certificate_must_match_its_host_name():
    context = client_tls_context(TlsSettings())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_without_host_name_verification_the_chain_is_still_verified():
    context = client_tls_context(TlsSettings(verifies_host_name=False))
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert not context.check_hostname


@pytest.mark.parametrize(
    "settings",
    [
        TlsSettings(trust_path=str(PEMS / "authority.pem")),
        TlsSettings(trust_pem=AUTHORITY),
        TlsSettings(trust_pem=AUTHORITY.replace("\n", "\\n")),
    ],
)
def test_only_the_given_certificates_are_trusted(settings):
    assert trusted_names(client_tls_context(settings)) == ["streamlog test authority"]


@pytest.mark.parametrize(
    ("versions", "least", "most"),
    [
        (("TLSv1.2",), ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2),
        (("TLSv1.3",), ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3),
    ],
)
def test_the_tls_versions_can_be_chosen(versions, least, most):
    context = client_tls_context(TlsSettings(versions=versions))
    assert (context.minimum_version, context.maximum_version) == (least, most)


@pytest.mark.parametrize(
    "settings",
    [
        TlsSettings(key_path=str(PEMS / "client.pem")),
        TlsSettings(key_path=str(PEMS / "client-encrypted.pem"), key_password="opensesame"),
        TlsSettings(key_pem=KEY, certificates_pem=CERTIFICATE),
    ],
)
def test_a_key_comes_from_a_file_or_an_inline_setting(settings, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    client_tls_context(settings)
    assert list(tmp_path.iterdir()) == [], "a private key was left behind"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (TlsSettings(trust_path="/no/such/file"), "ssl.truststore.location: no PEM certificates in /no/such/file"),
        (TlsSettings(trust_path=str(PEMS / "README.md")), "JKS or PKCS12"),
        (TlsSettings(trust_pem="nonsense"), "ssl.truststore.certificates: no PEM certificates in its value"),
        (TlsSettings(key_path=str(PEMS / "authority.pem")), "ssl.keystore.location"),
        (TlsSettings(key_path=str(PEMS / "client-encrypted.pem"), key_password="wrong"), "ssl.key.password"),
        (TlsSettings(key_path=str(PEMS / "client-encrypted.pem")), "ssl.key.password"),
        (TlsSettings(key_pem="nonsense", certificates_pem="secret"), "ssl.keystore.key: no PEM key"),
    ],
)
def test_unusable_tls_files_are_reported_with_their_setting(settings, said):
    with pytest.raises(AuthenticationError, match=said) as caught:
        client_tls_context(settings)
    assert "secret" not in caught.value.message
