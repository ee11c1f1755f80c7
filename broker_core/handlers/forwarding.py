"""Requests that a broker of a cluster sends on to the active controller, which answers them (as KIP-590 has it).

The controller's answer is the client's, in the version that the client asked in. When no controller answers in time,
the connection is closed: the client asks again, and cannot know whether it was carried out. With the client's name are
sent, in an envelope, requests that count against a quota while somebody has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker_core.broker.broker_node import BrokerNode
from broker_core.controller.requests.envelope import FIRST_STRICT_VERSION, SealedRequest
from broker_core.controller.requests.registry import CONTROLLER_APIS, FORWARDED, QUORUM_APIS
from broker_core.handlers.call import Call
from broker_core.model.exceptions import MalformedMessageError, RequestRefusedError, StreamlogError

FORWARDED_VERSIONS: Final[Mapping[int, range]] = {
    **{key: CONTROLLER_APIS[key].versions for key in FORWARDED},
    **QUORUM_APIS,
}


def is_forwarded(node: BrokerNode, api_key: int, version: int) -> bool:
    return node.controller is not None and version in FORWARDED_VERSIONS.get(api_key, range(0))


def forward(call: Call) -> None:
    assert call.node.controller is not None

    def answered(response: Any) -> None:
        call.respond_with(response)

    def failed(error: StreamlogError) -> None:
        call.close_connection(f"{call.api_key.label} could not be sent on to the controller: {error}")

    if call.node.quotas.clients.counts_mutations and call.request.api_key in FIRST_STRICT_VERSION:
        sealed = SealedRequest(call.request, principal=call.principal, host=call.client_host)

        def opened(response: Any) -> None:
            try:
                answer = sealed.answer_in(response)
            except (RequestRefusedError, MalformedMessageError) as error:
                failed(error)
            else:
                answered(answer)

        call.node.controller.ask(sealed.message, opened, failed)
    else:
        call.node.controller.ask(call.message, answered, failed)
