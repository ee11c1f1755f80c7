"""SASL, the server's side.

    exchange = sasl_server("SCRAM-SHA-512", credentials, nonce=…)
    step = exchange.respond(token)      send step.answer; until step.principal is set, another token follows

PLAIN (RFC 4616) is one token with the password. SCRAM (RFC 5802) is two: the client's name, then its proof. It is
implemented here and not by `scramp`, whose server refuses what Kafka accepts: salts below 12 bytes, names that are not
in SASLprep's form, extensions.

A refusal is an AuthenticationError. Its message is Kafka's message for the client, and never reveals whether the user
exists. An unknown user costs the same work as a known one: the password is compared with a random one, and a SCRAM
exchange continues to the proof, with a salt that stays the same while the process runs. Fields of the error:
`username`, for the log, if it was received."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Final, Protocol

from broker_core.model.exceptions import AuthenticationError
from broker_core.model.limits import MAX_SASL_TOKEN_BYTES, MIN_SCRAM_ITERATION_COUNT
from broker_core.model.scram import SCRAM_BY_LABEL, ScramCredential, ScramMechanism, is_proof, keyed_hash
from broker_core.protocol.sasl import PLAIN

SERVER_MECHANISMS: Final = (PLAIN, *SCRAM_BY_LABEL)
"""The valid values of `sasl.enabled.mechanisms`."""

_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_SASL_NAME: Final = r"(?:[^\x00,=]|=2C|=3D)+"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_BASE64: Final = r"(?:[A-Za-z0-9/+]{4})*(?:[A-Za-z0-9/+]{3}=|[A-Za-z0-9/+]{2}==)?"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_SASL_NAME}))?,)"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<without_proof>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SALT_CHARACTERS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_DECOY_SALT_BYTES: Final = 26
"""The value of Kafka's own tools, so that a decoy does not stand out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslStep:
    """The answer to the client; `principal`, like "User:alice", after a successful login."""

    answer: bytes
    principal: str | None


class CredentialLookup(Protocol):
    """The users of a broker."""

    def plain_password(self, username: str) -> str | None: ...

    def scram_credential(self, mechanism: ScramMechanism, username: str) -> ScramCredential | None: ...

    @property
    def decoy_key(self) -> bytes:
        """Random bytes of this process, from which the salts of unknown users are derived."""
        ...


class SaslServer(Protocol):
    """One login. After an AuthenticationError or a principal it is over."""

    def respond(self, token: bytes) -> SaslStep:
        """Raises AuthenticationError."""
        ...


def sasl_server(
    mechanism: str, credentials: CredentialLookup, *, nonce: str, during: str = "authentication"
) -> SaslServer:
    """`nonce`: printable characters without a comma, used only once; PLAIN needs none. `during` names the exchange in
    messages. Raises AuthenticationError for an unknown mechanism."""
    if mechanism == PLAIN:
        return PlainServer(credentials)
    if mechanism in SCRAM_BY_LABEL:
        return ScramServer(SCRAM_BY_LABEL[mechanism], credentials, nonce=nonce, during=during)
    raise AuthenticationError(
        f"SASL mechanism {mechanism!r} is not supported; supported are {', '.join(SERVER_MECHANISMS)}"
    )


class PlainServer:
    """One token: authorization id, name and password with a zero character between them."""

    def __init__(self, credentials: CredentialLookup) -> None:
        self._credentials = credentials

    def respond(self, token: bytes) -> SaslStep:
        _refuse_long(token)
        parts = token.decode("utf-8", errors="replace").split("\0")
        if len(parts) != 3:
            raise AuthenticationError(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), 4)}", username=None
            )
        authorization_id, username, password = parts
        if not username:
            raise AuthenticationError("Authentication failed: username not specified", username=None)
        if not password:
            raise AuthenticationError("Authentication failed: password not specified", username=username)
        known = self._credentials.plain_password(username)
        is_right = _are_equal(password, known if known is not None else self._credentials.decoy_key.hex())
        if not is_right or known is None:
            raise AuthenticationError("Authentication failed: Invalid username or password", username=username)
        _refuse_other_id(authorization_id, username)
        return SaslStep(answer=b"", principal=f"User:{username}")


class ScramServer:
    """Two tokens. The second answer proves to the client that the server knows the user."""

    def __init__(
        self, mechanism: ScramMechanism, credentials: CredentialLookup, *, nonce: str, during: str = "authentication"
    ) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._server_nonce = nonce
        self._during = during
        self._begun: _BegunExchange | None = None
        self._is_over = False

    def respond(self, token: bytes) -> SaslStep:
        _refuse_long(token)
        if self._is_over:
            raise self._refusal(None)
        # A failed exchange cannot be continued, so it ends before the token is checked.
        self._is_over = True
        try:
            text = token.decode()
        except UnicodeDecodeError as error:
            raise self._refusal(None) from error
        if self._begun is None:
            answer = self._first(text)
            self._is_over = False
            return SaslStep(answer=answer, principal=None)
        return self._final(text, self._begun)

    def _first(self, text: str) -> bytes:
        found = _CLIENT_FIRST.fullmatch(text)
        if found is None:
            raise self._refusal(None)
        username = _unescaped(found["name"])
        extensions = dict(one.split("=", 1) for one in found["extensions"].split(",")[1:])
        if extensions.get("tokenauth", "").lower() == "true":
            raise AuthenticationError("Authentication failed: delegation tokens are not supported", username=username)
        _refuse_other_id(_unescaped(found["authzid"] or ""), username)
        decoy = self._decoy(username)
        credential = self._credentials.scram_credential(self._mechanism, username)
        shown = decoy if credential is None else credential
        nonce = found["nonce"] + self._server_nonce
        server_first = f"r={nonce},s={base64.b64encode(shown.salt).decode()},i={shown.iterations}"
        self._begun = _BegunExchange(
            username=username,
            credential=shown,
            is_known=credential is not None,
            nonce=nonce,
            binding=found["header"],
            said=f"{found['bare']},{server_first}",
        )
        return server_first.encode()

    def _final(self, text: str, begun: _BegunExchange) -> SaslStep:
        found = _CLIENT_FINAL.fullmatch(text)
        if found is None:
            raise self._refusal(begun.username)
        try:
            proof = base64.b64decode(found["proof"], validate=True)
            binding = base64.b64decode(found["binding"], validate=True)
        except binascii.Error as error:
            raise self._refusal(begun.username) from error
        auth_message = f"{begun.said},{found['without_proof']}".encode()
        is_proven = is_proof(self._mechanism, begun.credential, proof, auth_message)
        is_same_exchange = found["nonce"] == begun.nonce and binding == begun.binding.encode()
        if not (is_proven and begun.is_known and is_same_exchange):
            raise self._refusal(begun.username)
        signature = keyed_hash(self._mechanism, begun.credential.server_key, auth_message)
        return SaslStep(answer=b"v=" + base64.b64encode(signature), principal=f"User:{begun.username}")

    def _decoy(self, username: str) -> ScramCredential:
        """The decoy credential of a user that does not exist, the same for each request."""
        made_of = f"{self._mechanism.label}\0{username}".encode()
        random_bytes = hmac.digest(self._credentials.decoy_key, made_of, "sha256")[:_DECOY_SALT_BYTES]
        salt = bytes(_SALT_CHARACTERS[byte % len(_SALT_CHARACTERS)] for byte in random_bytes)
        no_key = bytes(self._mechanism.key_bytes)
        return ScramCredential(salt=salt, stored_key=no_key, server_key=no_key, iterations=MIN_SCRAM_ITERATION_COUNT)

    def _refusal(self, username: str | None) -> AuthenticationError:
        return AuthenticationError(
            f"Authentication failed during {self._during} due to invalid credentials with SASL mechanism "
            f"{self._mechanism.label}",
            username=username,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _BegunExchange:
    """After the client's first message. `said`: the messages so far, which the proof covers."""

    username: str
    credential: ScramCredential
    is_known: bool
    nonce: str
    binding: str
    said: str


def _refuse_long(token: bytes) -> None:
    if len(token) > MAX_SASL_TOKEN_BYTES:
        raise AuthenticationError(
            f"Authentication failed: a token of {len(token)} bytes exceeds the limit of {MAX_SASL_TOKEN_BYTES}",
            username=None,
        )


def _refuse_other_id(authorization_id: str, username: str) -> None:
    if authorization_id not in ("", username):
        raise AuthenticationError(
            "Authentication failed: Client requested an authorization id that is different from username",
            username=username,
        )


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _are_equal(given: str, known: str) -> bool:
    """Compares the hashes, so that the time does not even reveal the length of the stored one."""
    hashes = (hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).digest() for text in (given, known))
    return hmac.compare_digest(*hashes)
