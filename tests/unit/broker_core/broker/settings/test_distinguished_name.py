"""What Java 17's X500Principal.getName() says of certificates that OpenSSL made."""

import ssl
from pathlib import Path

import pytest

from broker_core.broker.settings.distinguished_name import alternative_names_of, subject_of
from broker_core.model.exceptions import AuthenticationError

PEMS = Path(__file__).parents[4] / "golden" / "tls"
SUBJECTS = {
    r"1.2.840.113549.1.9.1=#160f616e6e406578616d706c652e636f6d,CN=ann+OU=data,O=Example\, Inc.,C=DE": (
        "3060310b300906035504061302444531163014060355040a0c0d4578616d706c652c20496e632e3119300a06035504030c03616e6e300b06"
        "0355040b0c0464617461311e301c06092a864886f70d010901160f616e6e406578616d706c652e636f6d"
    ),
    r"CN=\ lead\#ing \"q\" \<x\>\;y\=z\\\ ,UID=bob,DC=example,DC=org": (
        "306531133011060a0992268993f22c64011916036f726731173015060a0992268993f22c64011916076578616d706c6531133011060a0992"
        "268993f22c6401010c03626f623120301e06035504030c17206c65616423696e6720227122203c783e3b793d7a5c20"
    ),
    r"CN=\#x,2.5.4.5=#13023132,O=Ünï,STREET=Weg 1,L=München,ST=Bayern,C=DE": (
        "306b310b3009060355040613024445310f300d06035504080c0642617965726e3111300f06035504070c084dc3bc6e6368656e310e300c06"
        "035504090c055765672031310e300c060355040a0c05c39c6ec3af310b3009060355040513023132310b300906035504030c022378"
    ),
}


def element(tag, content):
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82, size >> 8, size & 255])
    return bytes([tag]) + length + content


def certificate_with(subject, *, has_version=True):
    """What stands around a subject, empty."""
    empty = element(0x30, b"")
    before = element(0x02, b"\x01") + empty * 3
    return element(0x30, element(0x30, (element(0xA0, b"") if has_version else b"") + before + subject + empty))


@pytest.mark.parametrize(("text", "der"), SUBJECTS.items())
@pytest.mark.parametrize("has_version", [True, False])
def test_a_subject_is_formatted_like_java(text, der, has_version):
    assert subject_of(certificate_with(bytes.fromhex(der), has_version=has_version)) == text


@pytest.mark.parametrize("cut", [0, 1, 5, 20, 60])
def test_a_truncated_certificate_is_refused(cut):
    whole = certificate_with(bytes.fromhex(next(iter(SUBJECTS.values()))))
    with pytest.raises(AuthenticationError):
        subject_of(whole[:cut])


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("broker", {"DNS:localhost", "IP:127.0.0.1"}),
        ("broker-more-names", {"DNS:localhost", "IP:127.0.0.1", "DNS:broker.example"}),
        ("client", {"DNS:ann"}),
    ],
)
def test_alternative_names_are_read_from_the_certificates_extensions(file, names):
    pem = (PEMS / f"{file}.pem").read_text()
    certificate = ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE") :])
    assert alternative_names_of(certificate) == names


def test_alternative_names_that_cannot_be_read_are_an_error():
    with pytest.raises(AuthenticationError, match="alternative names cannot be read"):
        alternative_names_of(b"\x30\x05")
