"""The login of one connection: `protocol.login_state`, with its answers converted to messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload
from typing_extensions import Buffer

from broker_core.protocol.api_table import ApiKey, message_types, versions_with_schemas
from broker_core.protocol.connection import Request
from broker_core.protocol.frame import framed
from broker_core.protocol.login_state import LoginAnswer, LoginState
from broker_core.protocol.message_builder import build


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginReply:
    """`message` answers the request; `raw` is sent unchanged. If both are missing, there is no answer."""

    message: ResponsePayload | None = None
    raw: tuple[Buffer, ...] = ()
    closes: bool = False
    delay_ms: int = 0
    reason: str | None = None


class ClientLogin:
    """`max_frame_bytes` applies until the client has logged in; refusals are sent `refusal_delay_ms` late."""

    def __init__(self, state: LoginState, *, max_frame_bytes: int, refusal_delay_ms: int) -> None:
        self._state = state
        self._refusal_delay_ms = refusal_delay_ms
        self.max_frame_bytes = max_frame_bytes

    @property
    def expects_raw_token(self) -> bool:
        return self._state.expects_raw_token

    @property
    def is_authenticated(self) -> bool:
        return self._state.is_authenticated

    @property
    def principal(self) -> str | None:
        return self._state.principal

    def on_request(self, request: Request, now_ms: int) -> LoginReply | None:
        """Returns None if the request is to be handled as any other."""
        answer = self._state.on_request(request.api_key, request.api_version, request.message, now_ms)
        return None if answer is None else self._reply(answer, request)

    def on_raw_token(self, token: bytes, now_ms: int) -> LoginReply:
        return self._reply(self._state.on_raw_token(token, now_ms), None)

    def on_answered(self, request: Request, message: Any) -> None:
        """For requests that were handled as any other."""
        if request.api_key == ApiKey.API_VERSIONS and message.error_code == ErrorCode.none:
            self._state.on_api_versions_answered()

    def _reply(self, answer: LoginAnswer, request: Request | None) -> LoginReply:
        return LoginReply(
            message=None if request is None else _message(answer, request),
            raw=() if answer.raw is None else tuple(framed([answer.raw])),
            closes=answer.closes,
            delay_ms=self._refusal_delay_ms if answer.delays else 0,
            reason=answer.reason,
        )


def _message(answer: LoginAnswer, request: Request) -> ResponsePayload | None:
    if answer.fields is None and answer.error is None:
        return None
    if request.api_version not in versions_with_schemas(request.api_key):
        # The format of the answer is unknown: the connection is closed without one.
        return None
    response = message_types(request.api_key, request.api_version).response
    if answer.fields is not None:
        return build(response, answer.fields)
    # An answer without a top-level error code is omitted: the connection is closed in any case.
    has_code = "error_code" in response.__dataclass_fields__
    return build(response, {"error_code": answer.error}) if has_code else None
