"""What a failed TLS handshake means, in words that name the settings to look at."""

from __future__ import annotations

import ssl

from broker_core.model.exceptions import AuthenticationError, BrokerUnavailableError, StreamlogError


def handshake_error(error: OSError, address: object) -> StreamlogError:
    """`error`: what the ssl module raised, other than TimeoutError, while this side connected to the address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationError(
            f"{address}: its certificate is not accepted: {error.verify_message or error}; see "
            "ssl.truststore.location and ssl.endpoint.identification.algorithm"
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return AuthenticationError(
            f"{address}: the TLS handshake failed ({error.reason or error}); does this port speak TLS, and does it "
            "ask for a certificate of ours (ssl.keystore.location)?"
        )
    reason = "" if isinstance(error, ssl.SSLError) else f": {error.strerror or str(error) or type(error).__name__}"
    return BrokerUnavailableError(
        f"{address} ended the TLS handshake{reason}; does this port speak TLS?", address=str(address)
    )
