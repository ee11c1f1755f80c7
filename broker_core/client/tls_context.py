"""Builds a TLS context from `TlsSettings`."""

from __future__ import annotations

import os
import ssl
import tempfile
from functools import cache

from broker_core.model.client_settings import TlsSettings
from broker_core.model.exceptions import AuthenticationError


@cache
def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """Raises an AuthenticationError that names the setting whose certificates or key cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verifies_host_name
    # Without host name verification the chain is still verified, as in Kafka's clients.
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if "TLSv1.2" in settings.versions else ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3 if "TLSv1.3" in settings.versions else ssl.TLSVersion.TLSv1_2
    _load_trust(context, settings)
    _load_identity(context, settings)
    return context


def _load_trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    try:
        if settings.trust_path is not None:
            context.load_verify_locations(cafile=settings.trust_path)
        elif settings.trust_pem is not None:
            context.load_verify_locations(cadata=_with_line_ends(settings.trust_pem))
        else:
            context.load_default_certs()
    except (OSError, ValueError) as error:
        name = "ssl.truststore.location" if settings.trust_path is not None else "ssl.truststore.certificates"
        raise AuthenticationError(
            f"{name}: no PEM certificates in {settings.trust_path or 'its value'} ({error}); convert a JKS or PKCS12 "
            "store to PEM first"
        ) from error


def _load_identity(context: ssl.SSLContext, settings: TlsSettings) -> None:
    # A function, so that openssl never prompts on the terminal.
    password = settings.key_password or ""
    try:
        if settings.key_path is not None:
            context.load_cert_chain(settings.key_path, password=lambda: password)
        elif settings.key_pem is not None:
            _load_identity_from_memory(context, settings.key_pem, settings.certificates_pem or "", password)
    except (OSError, ValueError) as error:
        name = "ssl.keystore.location" if settings.key_path is not None else "ssl.keystore.key"
        raise AuthenticationError(
            f"{name}: no PEM key with its certificates in {settings.key_path or 'its value'}, or ssl.key.password does "
            f"not open it ({error})"
        ) from error


def _load_identity_from_memory(context: ssl.SSLContext, key: str, certificates: str, password: str) -> None:
    """The ssl module only reads files: writes one that only this user may read, and removes it at the end."""
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{_with_line_ends(key)}\n{_with_line_ends(certificates)}\n")
        context.load_cert_chain(path, password=lambda: password)
    finally:
        os.unlink(path)


def _with_line_ends(pem: str) -> str:
    r"""In a properties file a line end is written \n, and some keep the two characters."""
    return pem.replace("\\n", "\n")
