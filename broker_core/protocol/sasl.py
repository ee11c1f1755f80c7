"""SASL, the client's side.

    mechanism = sasl_client("SCRAM-SHA-512", username=…, password=…, nonce=…)
    to_send = mechanism.first_message()
    while to_send is not None: to_send = mechanism.respond(the server's answer)

PLAIN (RFC 4616) sends the password itself, so use it with TLS. SCRAM (RFC 5802, by `scramp`) never sends it, and also
authenticates the server: `respond` to its last message raises unless the server knows the password. The work that a
server can demand is bounded by MAX_SCRAM_ITERATION_COUNT.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

import scramp

from broker_core.model.client_settings import SASL_MECHANISMS
from broker_core.model.exceptions import AuthenticationError
from broker_core.model.limits import MAX_SCRAM_ITERATION_COUNT

PLAIN: Final = "PLAIN"
SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")

_ITERATION_COUNT: Final = re.compile(r"(?:^|,)i=([0-9]+)(?:,|$)")
_SERVER_ERROR: Final = re.compile(r"(?:^|,)e=([^,]*)")


class SaslClient(Protocol):
    """One login. Raises AuthenticationError for an invalid answer."""

    def first_message(self) -> bytes: ...

    def respond(self, answer: bytes) -> bytes | None:
        """The next message, or None after a successful exchange."""
        ...


def sasl_client(mechanism: str, *, username: str, password: str, nonce: str) -> SaslClient:
    """`nonce`: printable characters, used only once; PLAIN needs none."""
    if mechanism == PLAIN:
        return PlainClient(username=username, password=password)
    if mechanism in SCRAM_MECHANISMS:
        return ScramClient(mechanism, username=username, password=password, nonce=nonce)
    raise AuthenticationError(
        f"SASL mechanism {mechanism!r} is not supported; sasl.mechanism may be {', '.join(SASL_MECHANISMS)}"
    )


class PlainClient:
    """One message; the answer is empty."""

    def __init__(self, *, username: str, password: str) -> None:
        if "\0" in username or "\0" in password:
            raise AuthenticationError("sasl.username and sasl.password must not contain a zero character")
        self._message = b"\0".join([b"", username.encode(), password.encode()])

    def first_message(self) -> bytes:
        return self._message

    def respond(self, answer: bytes) -> bytes | None:
        return None


class ScramClient:
    """Two messages. The second answer is the server's proof."""

    def __init__(self, mechanism: str, *, username: str, password: str, nonce: str) -> None:
        try:
            self._exchange = scramp.ScramClient([mechanism], username, password, c_nonce=nonce)
        except scramp.ScramException as error:
            raise AuthenticationError(f"{mechanism}: {error}") from error
        self._mechanism = mechanism
        self._is_answered_once = False

    def first_message(self) -> bytes:
        return str(self._exchange.get_client_first()).encode()

    def respond(self, answer: bytes) -> bytes | None:
        try:
            text = answer.decode()
            refusal = _SERVER_ERROR.search(text)
            if refusal is not None:
                raise AuthenticationError(f"{self._mechanism}: the broker refused the login: {refusal[1]!r}")
            if self._is_answered_once:
                self._exchange.set_server_final(text)
                return None
            self._is_answered_once = True
            self._refuse_endless_work(text)
            self._exchange.set_server_first(text)
            return str(self._exchange.get_client_final()).encode()
        # scramp also raises other exceptions for unexpected input.
        except (scramp.ScramException, ValueError, LookupError, TypeError) as error:
            raise AuthenticationError(
                f"{self._mechanism}: the broker's answer does not prove that it knows the password ({error})"
            ) from error

    def _refuse_endless_work(self, text: str) -> None:
        for digits in _ITERATION_COUNT.findall(text):
            if len(digits) > 10 or int(digits) > MAX_SCRAM_ITERATION_COUNT:
                raise AuthenticationError(
                    f"{self._mechanism}: the broker asks for {digits[:20]} iterations;"
                    f" at most {MAX_SCRAM_ITERATION_COUNT}"
                    " are allowed"
                )
