"""SaslHandshake (17), versions 0 and 1, without a login in progress: refused with ILLEGAL_SASL_STATE.

`protocol.login_state` handles logins before a request reaches any handler. This handler gets handshakes on a listener
without SASL, or on a logged-in connection without a lifetime to renew.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call


def handle(call: Call) -> None:
    call.respond(error_code=ErrorCode.illegal_sasl_state, mechanisms=[])
