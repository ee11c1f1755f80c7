"""A login by SASL as requests and answers, without a socket: the side that connects.

    steps = login_steps(settings, what="broker-1:9093: login of 'ann' by PLAIN", nonce=…)
    request = next(steps)
    request = steps.send(answer)          the next request; StopIteration at the end, its value the lifetime in seconds

A login without a lifetime has 0.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload

from broker_core.model.client_settings import SaslSettings
from broker_core.model.exceptions import AuthenticationError

LoginSteps = Generator[RequestPayload, Any, float]


def login_steps(sasl: SaslSettings, *, what: str, nonce: str) -> LoginSteps:
    """`what` begins the message of each error. Raises AuthenticationError, also for an answer that does not prove that
    the other side knows the password."""
    from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
    from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

    # Imported here: only logins need it, and loading it takes a while.
    from broker_core.protocol.sasl import sasl_client

    mechanism = sasl_client(sasl.mechanism, username=sasl.username, password=sasl.password, nonce=nonce)
    answer = yield SaslHandshakeRequest(mechanism=sasl.mechanism)
    _check(answer, what, f"the broker offers {', '.join(answer.mechanisms) or 'no mechanism'}")
    message: bytes | None = mechanism.first_message()
    while message is not None:
        answer = yield SaslAuthenticateRequest(auth_bytes=message)
        _check(answer, what, answer.error_message or f"the broker answered {answer.error_code.name.upper()}")
        message = mechanism.respond(answer.auth_bytes)
    return float(answer.session_lifetime.total_seconds())


def _check(answer: Any, what: str, reason: str) -> None:
    if answer.error_code is ErrorCode.none:
        return
    error = AuthenticationError(f"{what}: {reason}")
    error.error_code = answer.error_code
    error.fields["error_code"] = answer.error_code
    raise error
