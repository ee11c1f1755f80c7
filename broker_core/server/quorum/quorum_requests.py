"""What a node of the quorum does with a request: who may ask it, and which part of the node answers.

    access      the principal of the connection; of a request in an envelope that of the client who sent it to a broker
    answers     the node itself (versions, descriptions), its voter, or its controller if that is the active one

As in Kafka a request without an answer of its own version closes the connection, and a login where there is none to be
made is refused with ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from broker_core.controller.requests.access import Requester, screened
from broker_core.controller.requests.broker_heartbeat import BROKER_HEARTBEAT
from broker_core.controller.requests.envelope import (
    ENVELOPE,
    ForwardedRequest,
    forwarded_api,
    request_in,
    sealed_answer,
)
from broker_core.controller.requests.registry import CONTROLLER_APIS, QUORUM_APIS
from broker_core.handlers.call import Peer, Send
from broker_core.metadata.authorizer import Authorizer
from broker_core.model.exceptions import MalformedMessageError, RequestRefusedError
from broker_core.protocol.api_table import api_label, message_types
from broker_core.protocol.connection import Request
from broker_core.protocol.message_builder import build
from broker_core.raft.observer_events import QuorumAnswer
from broker_core.raft.voter_messages import answer_message, read_request
from broker_core.server.quorum.broker_watch import BrokerIncarnation
from broker_core.server.quorum.quorum_answers import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    LOGIN_APIS,
    SERVED_BY_CONTROLLERS,
    api_versions,
    describe_cluster,
    describe_quorum,
)
from broker_core.server.quorum.quorum_node import QuorumNode


class QuorumRequests:
    """`authorizer` None: everything is allowed. `handle` raises MalformedMessageError: close the connection."""

    def __init__(self, node: QuorumNode, authorizer: Authorizer | None) -> None:
        self._node = node
        self._authorizer = authorizer

    def handle(self, request: Request, peer: Peer, send: Send, now_ms: int) -> None:
        message, key = request.message, request.api_key
        if message is None or request.api_version not in SERVED_BY_CONTROLLERS.get(key, range(0)):
            if key != API_VERSIONS:
                raise MalformedMessageError(f"{api_label(key)} of version {request.api_version} is not supported")
            keys = api_versions(self._node, 0)["api_keys"]
            refusal = {"error_code": ErrorCode.unsupported_version, "api_keys": keys}
            send(build(message_types(API_VERSIONS, 0).response, refusal))
            return
        response = message_types(key, request.api_version).response
        requester = self._requester(peer.principal, peer.client_host)
        try:
            requester.require(key)
        except RequestRefusedError as error:
            send(build(response, _refusal(request, error)))
            return
        if key == ENVELOPE:
            self._open(message, lambda values: send(build(response, values)), now_ms)
        elif key in CONTROLLER_APIS:
            if key == BROKER_HEARTBEAT:
                broker = BrokerIncarnation(message.broker_id, message.broker_epoch)
                self._node.brokers.on_heartbeat(peer.connection_id, request.client_id, broker)
            api = screened(CONTROLLER_APIS[key], requester)
            self._node.controller.handle(api, message, lambda reply: send(build(response, reply)))
        elif key in LOGIN_APIS:
            send(build(response, {"error_code": ErrorCode.illegal_sasl_state}))
        elif key in (API_VERSIONS, DESCRIBE_CLUSTER):
            send(build(response, self._described(key, request.api_version, message)))
        else:
            self._on_quorum(request, send, now_ms)

    def _on_quorum(self, request: Request, send: Send, now_ms: int) -> None:
        """What the quorum itself answers."""
        message = request.message
        if request.api_key == DESCRIBE_QUORUM:
            values = describe_quorum(self._node, message, now_ms)
            send(build(message_types(DESCRIBE_QUORUM, request.api_version).response, values))
            return
        asked, cluster_id = read_request(message)
        self._node.receive(asked, cluster_id, partial(_answer, message, send))

    def _open(self, envelope: Any, send: Callable[[Any], None], now_ms: int) -> None:
        """A client's request that a broker forwards. `send` takes the fields of the envelope's answer."""
        try:
            inner = request_in(envelope)
        except RequestRefusedError as error:
            send({"error_code": error.error_code})
            return
        requester = self._requester(inner.principal, inner.host)
        try:
            requester.require(inner.api_key)
        except RequestRefusedError as error:
            send(_sealed(inner, _refusal(inner, error)))
            return
        if inner.api_key in QUORUM_APIS:
            self._on_quorum(inner, lambda answer: send(sealed_answer(inner, answer)), now_ms)
            return
        api = forwarded_api(inner, screened(CONTROLLER_APIS[inner.api_key], requester))
        self._node.controller.handle(api, inner.message, send)

    def _requester(self, principal: str, host: str) -> Requester:
        """Access rules are known once this node knows what is committed."""
        is_ready = self._node.voter.high_watermark > 0
        return Requester(principal=principal, host=host, authorizer=self._authorizer, is_ready=is_ready)

    def _described(self, key: int, version: int, message: Any) -> dict[str, Any]:
        return api_versions(self._node, version) if key == API_VERSIONS else describe_cluster(self._node, message)


def _answer(message: Any, send: Send, answer: QuorumAnswer) -> None:
    send(answer_message(answer, message))


def _sealed(inner: ForwardedRequest, fields: Any) -> Any:
    return sealed_answer(inner, build(message_types(inner.api_key, inner.api_version).response, fields))


def _refusal(request: Request, error: RequestRefusedError) -> Any:
    """The answer's fields."""
    api = CONTROLLER_APIS.get(request.api_key)
    if api is not None:
        return api.refuse(request.message, error.error_code, error.message)
    has_text = request.api_key in (*QUORUM_APIS, DESCRIBE_CLUSTER)
    return {"error_code": error.error_code} | ({"error_message": error.message} if has_text else {})
