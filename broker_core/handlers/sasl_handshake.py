"""SaslHandshake (17), versions 0 and 1, where no login is due: refused with ILLEGAL_SASL_STATE.

Logins themselves are `protocol.login_state`'s, before a request comes to any handler. What comes here is a handshake on
a listener without SASL, or on a connection that is logged in already and has no lifetime to renew.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker_core.handlers.call import Call


def handle(call: Call) -> None:
    call.respond(error_code=ErrorCode.illegal_sasl_state, mechanisms=[])
