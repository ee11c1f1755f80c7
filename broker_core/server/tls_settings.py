"""The TLS context of a listener, built from `ListenerTls`; and the principal of a client's certificate.

While a broker runs, a certificate can be replaced by one with the same subject and, at least, the same alternative
names, as in Kafka, unless `ssl.allow.dn.changes` and `ssl.allow.san.changes` say otherwise: clients know it by these.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from contextlib import suppress
from typing import Final

from broker_core.broker.settings.distinguished_name import alternative_names_of, subject_of
from broker_core.broker.settings.listener_security import ListenerTls
from broker_core.model.access_control import ANONYMOUS
from broker_core.model.client_settings import TlsSettings
from broker_core.model.exceptions import AuthenticationError, InvalidConfigError

FileStamps = tuple[tuple[str, int, int, int], ...]

_CERTIFICATE: Final = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


def server_tls_context(listener_name: str, tls: ListenerTls) -> ssl.SSLContext:
    """Raises InvalidConfigError that names the setting with the invalid certificates or key."""
    settings = tls.identity
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if "TLSv1.2" in settings.versions else ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3 if "TLSv1.3" in settings.versions else ssl.TLSVersion.TLSv1_2
    context.verify_mode = _CLIENT_AUTH[tls.client_auth]
    _load_identity(context, settings, listener_name)
    if tls.client_auth != "none":
        _load_trust(context, settings, listener_name)
    return context


def file_stamps(tls: ListenerTls) -> FileStamps:
    """Changes whenever a file of the certificates is written or replaced. A file that is not there has no stamp."""
    stamps = []
    for path in (tls.identity.key_path, tls.identity.trust_path):
        with suppress(OSError):
            if path is not None:
                found = os.stat(path)
                stamps.append((path, found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(stamps)


def certificate_of(tls: ListenerTls) -> bytes | None:
    """The listener's own certificate in DER, the first of its chain; None if there is none that can be read."""
    if tls.identity.key_path is not None:
        return certificate_of_file(tls.identity.key_path)
    return _first_certificate(_with_line_ends(tls.identity.certificates_pem or ""))


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


def _load_identity(context: ssl.SSLContext, settings: TlsSettings, listener_name: str) -> None:
    password = settings.key_password or ""
    try:
        # The password is a function, so that openssl never prompts on the terminal.
        if settings.key_path is not None:
            context.load_cert_chain(settings.key_path, password=lambda: password)
        else:
            _load_identity_from_memory(context, settings, password)
    except (OSError, ValueError) as error:
        name = "ssl.keystore.location" if settings.key_path is not None else "ssl.keystore.key"
        raise InvalidConfigError(
            f"{listener_name}: {name}: no PEM key with its certificates in {settings.key_path or 'its value'}, or "
            f"ssl.key.password does not open it ({error})"
        ) from error


def _load_identity_from_memory(context: ssl.SSLContext, settings: TlsSettings, password: str) -> None:
    """The library only reads files: writes a temporary one that only this user can read, and removes it."""
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            for pem in (settings.key_pem, settings.certificates_pem):
                file.write(f"{_with_line_ends(pem or '')}\n")
        context.load_cert_chain(path, password=lambda: password)
    finally:
        os.unlink(path)


def _load_trust(context: ssl.SSLContext, settings: TlsSettings, listener_name: str) -> None:
    try:
        if settings.trust_path is not None:
            context.load_verify_locations(cafile=settings.trust_path)
        else:
            context.load_verify_locations(cadata=_with_line_ends(settings.trust_pem or ""))
    except (OSError, ValueError) as error:
        name = "ssl.truststore.location" if settings.trust_path is not None else "ssl.truststore.certificates"
        raise InvalidConfigError(
            f"{listener_name}: {name}: no PEM certificates in {settings.trust_path or 'its value'} ({error})"
        ) from error


def _with_line_ends(pem: str) -> str:
    r"""In a properties file a line end is written \n, and some parsers keep the two characters."""
    return pem.replace("\\n", "\n")
