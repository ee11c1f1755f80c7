"""Requests that a broker of a cluster sends on to the active controller, which answers them (as KIP-590 has it).

They go in an envelope with the client's name and address: the controller decides by these what the client may do, and
counts it against the client's quota. Its answer is the client's, in the version that the client asked in. If it does
not open the envelope, the client gets UNKNOWN_SERVER_ERROR, as from Kafka, and the log of this broker has the reason.
When no controller answers in time, the connection is closed: the client asks again, and cannot know whether it was
carried out.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.broker.broker_node import BrokerNode
from broker_core.controller.requests.envelope import SealedRequest
from broker_core.controller.requests.registry import CONTROLLER_APIS, FORWARDED
from broker_core.handlers.call import Call
from broker_core.model.exceptions import MalformedMessageError, RequestRefusedError, StreamlogError

_REASON: Final = "the controller did not take what this broker sent on"
_log: Final = logging.getLogger(__name__)


def is_forwarded(node: BrokerNode, api_key: int, version: int) -> bool:
    return node.controller is not None and version in FORWARDED.get(api_key, range(0))


def forward(call: Call) -> None:
    assert call.node.controller is not None
    sealed = SealedRequest(call.request, principal=call.principal, host=call.client_host)

    def opened(response: Any) -> None:
        try:
            answer = sealed.answer_in(response)
        except RequestRefusedError as error:
            _refuse(call, error)
        except MalformedMessageError as error:
            failed(error)
        else:
            call.respond_with(answer)

    def failed(error: StreamlogError) -> None:
        call.close_connection(f"{call.api_key.label} could not be sent on to the controller: {error}")

    call.node.controller.ask(sealed.message, opened, failed)


def _refuse(call: Call, error: RequestRefusedError) -> None:
    """Of another version the client is to ask again which versions there are."""
    if error.error_code is ErrorCode.unsupported_version:
        call.close_connection(f"the controller does not support {call.api_key.label} of version {call.version}")
        return
    _log.warning("api=%s peer=%s: %s: %s", call.api_key.label, call.peer, _REASON, error.error_code.name)
    unknown = ErrorCode.unknown_server_error
    api = CONTROLLER_APIS.get(call.request.api_key)
    fields = {"error_code": unknown} if api is None else api.refuse(call.message, unknown, _REASON)
    call.respond(**fields)
