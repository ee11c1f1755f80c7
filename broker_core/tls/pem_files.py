"""Loads the PEM of `TlsSettings` into a context: certificates to trust, and the own key with its certificates.

Raises PemError, which says which setting is wrong, without its content.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from typing import Final

from broker_core.model.client_settings import TlsSettings

FileStamps = tuple[tuple[str, int, int, int], ...]

CONVERT: Final = "convert a JKS or PKCS12 store to PEM first"


class PemError(Exception):
    """The message begins with the name of the setting."""


def file_stamps(settings: TlsSettings) -> FileStamps:
    """Changes whenever a file of the certificates is written or replaced. A file that is not there has no stamp."""
    stamps = []
    for path in (settings.key_path, settings.trust_path):
        if path is not None:
            try:
                found = os.stat(path)
            except OSError:
                continue
            stamps.append((path, found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(stamps)


def set_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if "TLSv1.2" in settings.versions else ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3 if "TLSv1.3" in settings.versions else ssl.TLSVersion.TLSv1_2


def load_trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Without trusted certificates those of the operating system."""
    try:
        if settings.trust_path is not None:
            context.load_verify_locations(cafile=settings.trust_path)
        elif settings.trust_pem is not None:
            context.load_verify_locations(cadata=with_line_ends(settings.trust_pem))
        else:
            context.load_default_certs()
    except (OSError, ValueError) as error:
        name = "ssl.truststore.location" if settings.trust_path is not None else "ssl.truststore.certificates"
        raise PemError(
            f"{name}: no PEM certificates in {settings.trust_path or 'its value'} ({error}); {CONVERT}"
        ) from error


def load_identity(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Nothing without a key."""
    # A function, so that openssl never prompts on the terminal.
    password = settings.key_password or ""
    try:
        if settings.key_path is not None:
            context.load_cert_chain(settings.key_path, password=lambda: password)
        elif settings.key_pem is not None:
            _load_identity_from_memory(context, settings.key_pem, settings.certificates_pem or "", password)
    except (OSError, ValueError) as error:
        name = "ssl.keystore.location" if settings.key_path is not None else "ssl.keystore.key"
        raise PemError(
            f"{name}: no PEM key with its certificates in {settings.key_path or 'its value'}, or ssl.key.password does "
            f"not open it ({error})"
        ) from error


def with_line_ends(pem: str) -> str:
    r"""In a properties file a line end is written \n, and some parsers keep the two characters."""
    return pem.replace("\\n", "\n")


def _load_identity_from_memory(context: ssl.SSLContext, key: str, certificates: str, password: str) -> None:
    """The ssl module only reads files: writes one that only this user may read, and removes it at the end."""
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{with_line_ends(key)}\n{with_line_ends(certificates)}\n")
        context.load_cert_chain(path, password=lambda: password)
    finally:
        os.unlink(path)
