"""SaslAuthenticate (36), versions 0 to 2, where no login is due: refused with ILLEGAL_SASL_STATE, as SaslHandshake is.

The message is Kafka's, on listeners without SASL too.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call

_MESSAGE: Final = "SaslAuthenticate request received after successful authentication"


def handle(call: Call) -> None:
    call.respond(error_code=ErrorCode.illegal_sasl_state, error_message=_MESSAGE)
