"""The login state of one connection: which requests a listener with SASL accepts before, during and after a login.

    answer = login.on_request(api_key, version, message, now_ms)     None: handle the request as any other
    answer = login.on_raw_token(frame, now_ms)                       while login.expects_raw_token
    login.on_api_versions_answered()                                 an ApiVersions request got an answer without error

    state            what may come                        what it leads to
    FIRST            ApiVersions, SaslHandshake           VERSIONS_KNOWN, TOKEN
    VERSIONS_KNOWN   SaslHandshake                        TOKEN
    TOKEN            SaslAuthenticate; after a handshake  TOKEN, or OPEN once the exchange is over and good
                     of version 0: bare tokens
    OPEN             everything; with a lifetime, a       TOKEN (at most once a second, KIP-368)
                     SaslHandshake starts another login
    OTHER_MECHANISM  nothing: the new login names another mechanism than the old one; its token closes the connection
    CLOSED           nothing

As in Kafka, everything else closes the connection, with an answer before it where Kafka sends one. A refused login is
answered and closed only after `connection.failed.authentication.delay.ms`: `LoginAnswer.delays`. With a lifetime
(connections.max.reauth.ms) an expired login is invalid, and the next request closes the connection.

Pass the requests one at a time, in their order: the meaning of a frame depends on the previous one. `api_key` and
`version` are the header's; `message` may be None for a version that cannot be read.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.model.exceptions import AuthenticationError
from broker_core.model.limits import MIN_REAUTHENTICATION_INTERVAL_MS
from broker_core.ports import Entropy
from broker_core.protocol.api_table import ApiKey, api_label
from broker_core.protocol.sasl_server import CredentialLookup, SaslServer, SaslStep, sasl_server

_NONCE_BYTES: Final = 20


class LoginStage(enum.Enum):
    FIRST = "first"
    VERSIONS_KNOWN = "versions known"
    TOKEN = "token"
    OPEN = "open"
    OTHER_MECHANISM = "other mechanism"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAnswer:
    """What the server sends: an answer with these `fields` to the request, or what the request's API answers for an
    `error`, or `raw` as a frame of its own, or nothing.

    `closes`: after it the connection is closed; `delays`: both wait for connection.failed.authentication.delay.ms.
    `reason` is a line for the log; it holds no secrets.
    """

    fields: Mapping[str, Any] | None = None
    error: ErrorCode | None = None
    raw: bytes | None = None
    closes: bool = False
    delays: bool = False
    reason: str | None = None


@dataclass(slots=True)
class _Exchange:
    """The login in progress. `is_bare`: its tokens are frames without headers."""

    mechanism: str
    server: SaslServer
    is_bare: bool
    is_renewal: bool = field(kw_only=True)

    @property
    def name(self) -> str:
        return _name_of_exchange(self.is_renewal)


class LoginState:
    """`mechanisms`: the enabled ones, in the order that clients see. `max_reauth_ms` 0: logins do not expire."""

    def __init__(
        self,
        *,
        mechanisms: Sequence[str],
        credentials: CredentialLookup,
        entropy: Entropy,
        max_reauth_ms: int = 0,
    ) -> None:
        self._mechanisms = tuple(mechanisms)
        self._credentials = credentials
        self._entropy = entropy
        self._max_reauth_ms = max_reauth_ms
        self._stage = LoginStage.FIRST
        self._exchange: _Exchange | None = None
        self._mechanism: str | None = None
        self._principal: str | None = None
        self._expires_ms: int | None = None
        self._renewed_ms: int | None = None

    @property
    def stage(self) -> LoginStage:
        return self._stage

    @property
    def principal(self) -> str | None:
        """Like "User:alice"; None before the login. During a re-authentication it is the current one."""
        return self._principal

    @property
    def is_authenticated(self) -> bool:
        """Whether the login is complete: all requests are accepted, and frames may be large."""
        return self._stage == LoginStage.OPEN

    @property
    def expects_raw_token(self) -> bool:
        """Whether the next frame is no request: pass it to `on_raw_token`."""
        is_bare = self._exchange is not None and self._exchange.is_bare
        return is_bare and self._stage in (LoginStage.TOKEN, LoginStage.OTHER_MECHANISM)

    def has_expired(self, now_ms: int) -> bool:
        """Whether the login has expired: any request except a SaslHandshake closes the connection."""
        return self._stage == LoginStage.OPEN and self._expires_ms is not None and now_ms > self._expires_ms

    def on_api_versions_answered(self) -> None:
        """Do not call this for an answer with an error: the client may retry in another version."""
        if self._stage == LoginStage.FIRST:
            self._stage = LoginStage.VERSIONS_KNOWN

    def on_request(self, api_key: int, version: int, message: Any | None, now_ms: int) -> LoginAnswer | None:
        """None: the request is allowed and belongs to its handler. That may be an unexpected login request, which its
        handler answers with ILLEGAL_SASL_STATE."""
        match self._stage:
            case LoginStage.OPEN:
                return self._on_request_when_open(api_key, version, message, now_ms)
            case LoginStage.FIRST | LoginStage.VERSIONS_KNOWN:
                return self._on_first_request(api_key, version, message)
            case LoginStage.TOKEN:
                return self._on_token_request(api_key, version, message, now_ms)
            case _:
                return self._on_nothing_allowed()

    def on_raw_token(self, token: bytes, now_ms: int) -> LoginAnswer:
        """A frame that is a token. A refusal has no answer: the format has no field for it."""
        if self._stage != LoginStage.TOKEN or self._exchange is None:
            return self._on_nothing_allowed()
        try:
            step = self._respond(self._exchange, token, now_ms)
        except AuthenticationError as refusal:
            return self._close(delays=True, reason=_refused_login(self._exchange, refusal))
        return LoginAnswer(raw=step.answer)

    def _on_request_when_open(self, api_key: int, version: int, message: Any | None, now_ms: int) -> LoginAnswer | None:
        renews = api_key == ApiKey.SASL_HANDSHAKE and self._expires_ms is not None and not self._is_too_soon(now_ms)
        if renews:
            self._renewed_ms = now_ms
            return self._on_handshake(version, message, is_renewal=True)
        if self.has_expired(now_ms):
            return self._close(reason=f"the login of {self._principal!r} has expired and was not renewed")
        return None

    def _is_too_soon(self, now_ms: int) -> bool:
        return self._renewed_ms is not None and now_ms - self._renewed_ms < MIN_REAUTHENTICATION_INTERVAL_MS

    def _on_first_request(self, api_key: int, version: int, message: Any | None) -> LoginAnswer | None:
        if api_key == ApiKey.SASL_HANDSHAKE:
            return self._on_handshake(version, message, is_renewal=False)
        if api_key == ApiKey.API_VERSIONS:
            if self._stage == LoginStage.FIRST:
                return None
            return self._close(reason="a second ApiVersions request instead of SaslHandshake")
        return self._close(delays=True, reason=f"{api_label(api_key)} request before the login")

    def _on_handshake(self, version: int, message: Any | None, *, is_renewal: bool) -> LoginAnswer:
        if message is None:
            return self._close(reason=f"SaslHandshake request of version {version}, which is not supported")
        mechanism = str(message.mechanism)
        if mechanism not in self._mechanisms:
            refusal = {"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": list(self._mechanisms)}
            return self._close(
                fields=None if is_renewal else refusal,
                delays=not is_renewal,
                reason=f"SASL mechanism {mechanism[:40]!r}, which is not enabled",
            )
        self._exchange = _Exchange(
            mechanism,
            sasl_server(
                mechanism,
                self._credentials,
                nonce=self._entropy.random_bytes(_NONCE_BYTES).hex(),
                during=_name_of_exchange(is_renewal),
            ),
            version == 0,
            is_renewal=is_renewal,
        )
        is_other = is_renewal and mechanism != self._mechanism
        self._stage = LoginStage.OTHER_MECHANISM if is_other else LoginStage.TOKEN
        return LoginAnswer(fields={"error_code": ErrorCode.none, "mechanisms": list(self._mechanisms)})

    def _on_token_request(self, api_key: int, version: int, message: Any | None, now_ms: int) -> LoginAnswer:
        exchange = self._exchange
        assert exchange is not None, "a token is expected without an exchange"
        if api_key != ApiKey.SASL_AUTHENTICATE:
            return self._close(
                error=ErrorCode.illegal_sasl_state,
                delays=True,
                reason=f"{api_label(api_key)} request during {exchange.name}",
            )
        if message is None:
            return self._close(reason=f"SaslAuthenticate request of version {version}, which is not supported")
        try:
            step = self._respond(exchange, bytes(message.auth_bytes), now_ms)
        except AuthenticationError as refusal:
            return self._close(
                fields={"error_code": ErrorCode.sasl_authentication_failed, "error_message": refusal.message},
                delays=True,
                reason=_refused_login(exchange, refusal),
            )
        lifetime_ms = 0 if step.principal is None else self._max_reauth_ms
        return LoginAnswer(
            fields={
                "error_code": ErrorCode.none,
                "error_message": "",
                "auth_bytes": step.answer,
                "session_lifetime": lifetime_ms,
            }
        )

    def _respond(self, exchange: _Exchange, token: bytes, now_ms: int) -> SaslStep:
        step = exchange.server.respond(token)
        if step.principal is None:
            return step
        if exchange.is_renewal and step.principal != self._principal:
            raise AuthenticationError(
                "Cannot change principals during re-authentication from "
                f"{_dotted(self._principal)}: {_dotted(step.principal)}",
                username=step.principal,
            )
        self._principal, self._mechanism = step.principal, exchange.mechanism
        self._expires_ms = now_ms + self._max_reauth_ms if self._max_reauth_ms > 0 else None
        self._exchange = None
        self._stage = LoginStage.OPEN
        return step

    def _on_nothing_allowed(self) -> LoginAnswer:
        if self._stage == LoginStage.OTHER_MECHANISM and self._exchange is not None:
            return self._close(
                delays=True,
                reason=f"SASL mechanism {self._exchange.mechanism!r} is not supported for re-authentication of "
                f"mechanism {self._mechanism!r}",
            )
        return self._close(reason=f"an unexpected frame ({self._stage.value})")

    def _close(
        self,
        *,
        reason: str,
        fields: Mapping[str, Any] | None = None,
        error: ErrorCode | None = None,
        delays: bool = False,
    ) -> LoginAnswer:
        self._stage = LoginStage.CLOSED
        return LoginAnswer(fields=fields, error=error, closes=True, delays=delays, reason=reason)


def _name_of_exchange(is_renewal: bool) -> str:
    return "re-authentication" if is_renewal else "authentication"


def _dotted(principal: str | None) -> str:
    """The principal as Kafka writes it in this one message."""
    return str(principal).replace(":", ".", 1)


def _refused_login(exchange: _Exchange, refusal: AuthenticationError) -> str:
    username = refusal.fields.get("username")
    who = "" if username is None else f" of {username[:100]!r}"
    return f"{exchange.name}{who} with {exchange.mechanism} refused: {refusal.message}"
