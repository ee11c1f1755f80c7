"""SaslAuthenticate (36), versions 0 to 2, without a login in progress: ILLEGAL_SASL_STATE, like SaslHandshake.

The message is Kafka's, on listeners without SASL too.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call

_MESSAGE: Final = "SaslAuthenticate request received after successful authentication"


def handle(call: Call) -> None:
    call.respond(error_code=ErrorCode.illegal_sasl_state, error_message=_MESSAGE)
