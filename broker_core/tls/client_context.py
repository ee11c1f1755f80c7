"""The TLS context of the side that connects, built from `TlsSettings`.

Files are read again when they have changed, so a certificate that is replaced is used by the next connection.
"""

from __future__ import annotations

import ssl
from functools import lru_cache
from typing import Final

from broker_core.model.client_settings import TlsSettings
from broker_core.model.exceptions import AuthenticationError
from broker_core.tls.pem_files import FileStamps, PemError, file_stamps, load_identity, load_trust, set_versions

_CONTEXT_COUNT: Final = 32


def client_tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """Raises an AuthenticationError that names the setting whose certificates or key cannot be used."""
    # The stamps are taken first: a file that is replaced meanwhile is loaded again.
    return _context(settings, file_stamps(settings))


@lru_cache(maxsize=_CONTEXT_COUNT)
def _context(settings: TlsSettings, stamps: FileStamps) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verifies_host_name
    # Without host name verification the chain is still verified, as in Kafka's clients.
    context.verify_mode = ssl.CERT_REQUIRED
    set_versions(context, settings)
    try:
        load_trust(context, settings)
        load_identity(context, settings)
    except PemError as error:
        raise AuthenticationError(str(error)) from error
    return context
