"""The TLS context of a listener, built from `ListenerTls`; and the principal of a client's certificate.

While a broker runs, a certificate can be replaced by one with the same subject and, at least, the same alternative
names, as in Kafka, unless `ssl.allow.dn.changes` and `ssl.allow.san.changes` say otherwise: clients know it by these.
"""

from __future__ import annotations

import re
import ssl
from typing import Final

from broker_core.broker.settings.distinguished_name import alternative_names_of, subject_of
from broker_core.broker.settings.listener_security import ListenerTls
from broker_core.model.access_control import ANONYMOUS
from broker_core.model.exceptions import AuthenticationError, InvalidConfigError
from broker_core.tls.pem_files import PemError, load_identity, load_trust, set_versions, with_line_ends

_CERTIFICATE: Final = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_tls_context(listener_name: str, tls: ListenerTls) -> ssl.SSLContext:
    """Raises InvalidConfigError that names the setting with the invalid certificates or key."""
    settings = tls.identity
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    set_versions(context, settings)
    context.verify_mode = _CLIENT_AUTH[tls.client_auth]
    try:
        load_identity(context, settings)
        if tls.client_auth != "none":
            load_trust(context, settings)
    except PemError as error:
        raise InvalidConfigError(f"{listener_name}: {error}") from error
    return context


def certificate_of(tls: ListenerTls) -> bytes | None:
    """The listener's own certificate in DER, the first of its chain; None if there is none that can be read."""
    if tls.identity.key_path is not None:
        return certificate_of_file(tls.identity.key_path)
    return _first_certificate(with_line_ends(tls.identity.certificates_pem or ""))


def certificate_of_file(path: str) -> bytes | None:
    """The first certificate of a PEM file, in DER."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return _first_certificate(file.read())
    except OSError:
        return None


def _first_certificate(pem: str) -> bytes | None:
    found = _CERTIFICATE.search(pem)
    return None if found is None else ssl.PEM_cert_to_DER_cert(found[0])


def check_replacement(
    listener_name: str, certificate: bytes | None, tls: ListenerTls, *, allowed_by: ListenerTls | None
) -> None:
    """Whether the certificate of `tls` may replace this one. `allowed_by` has what was allowed when the listener was
    started, as in Kafka. Raises InvalidConfigError."""
    new = certificate_of(tls)
    if certificate is None or new is None or allowed_by is None:
        return
    try:
        subjects = subject_of(certificate), subject_of(new)
        names, new_names = alternative_names_of(certificate), alternative_names_of(new)
    except AuthenticationError as error:
        raise InvalidConfigError(f"{listener_name}: ssl.keystore: {error.message}") from error
    if subjects[0] != subjects[1] and not allowed_by.allows_another_subject:
        raise InvalidConfigError(
            f"{listener_name}: Keystore DistinguishedName does not match: existing={subjects[0]}, new={subjects[1]};"
            " see ssl.allow.dn.changes"
        )
    if not names <= new_names and not allowed_by.allows_missing_names:
        raise InvalidConfigError(
            f"{listener_name}: Keystore SubjectAltNames do not match: existing={sorted(names)},"
            f" new={sorted(new_names)}; see ssl.allow.san.changes"
        )


def principal_of_certificate(tls: ListenerTls, certificate: bytes | None) -> str:
    """`certificate`: DER, verified; None if the client sent none. Raises AuthenticationError if no rule matches."""
    if certificate is None:
        return ANONYMOUS
    return f"User:{tls.principal_mapping.name_of(subject_of(certificate))}"
