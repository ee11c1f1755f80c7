"""Dispatches a request to its handler, and turns exceptions into answers.

As in Kafka a request that cannot be answered in its own format closes the connection: an unknown key, or an unsupported
version. The exception is ApiVersions: the answer is of version 0 with the supported versions, so that a newer client
can retry (KIP-511)."""

from __future__ import annotations

import logging
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker_core.broker.broker_node import BrokerNode
from broker_core.handlers import api_versions
from broker_core.handlers.call import Call, Peer, Send
from broker_core.handlers.forwarding import forward, is_forwarded
from broker_core.handlers.registry import HANDLERS
from broker_core.handlers.request_meter import RequestMeter
from broker_core.model.exceptions import MalformedMessageError, StreamlogError
from broker_core.protocol.api_table import ApiKey, api_label, message_types
from broker_core.protocol.connection import Request
from broker_core.protocol.served_versions import is_served

_log: Final = logging.getLogger(__name__)


def dispatch(node: BrokerNode, request: Request, peer: Peer, send: Send, now_ms: int) -> None:
    """Calls `send` once, now or later, with the answer or None for none. Raises MalformedMessageError and unexpected
    exceptions of handlers: then close the connection."""
    call = Call(node=node, request=request, peer=peer, send=send, now_ms=now_ms)
    if node.quotas.clients.is_used and request.message is not None:
        _dispatch_metered(call)
    else:
        _dispatch(call)


def _dispatch_metered(call: Call) -> None:
    node = call.node
    call.meter = RequestMeter(
        node.quotas.clients,
        call.request,
        principal=call.principal,
        now_ms=node.clock.now_ms,
        stopwatch_ns=node.stopwatch_ns,
    )
    _dispatch(call)
    call.meter.on_handler_end()


def _dispatch(call: Call) -> None:
    node, request = call.node, call.request
    if request.message is not None and is_forwarded(node, request.api_key, request.api_version):
        forward(call)
        return
    if request.message is None or not is_served(request.api_key, request.api_version):
        if request.api_key != ApiKey.API_VERSIONS:
            raise MalformedMessageError(
                f"{api_label(request.api_key)} of version {request.api_version} is not supported"
            )
        api_versions.refuse_version(call)
        return
    try:
        HANDLERS[request.api_key](call)
    except Exception as error:
        if call.is_answered or not _may_answer(call, error):
            raise


def _may_answer(call: Call, error: Exception) -> bool:
    """Answers with the error code if the answer has a top-level one."""
    if "error_code" not in _field_names(message_types(call.request.api_key, call.version).response):
        return False
    if isinstance(error, StreamlogError):
        call.respond(error_code=error.error_code)
        return True
    _log.exception("api=%s version=%d peer=%s failed", call.api_key.label, call.version, call.peer)
    call.respond(error_code=ErrorCode.unknown_server_error)
    return True


def _field_names(message_type: type[Entity]) -> frozenset[str]:
    return frozenset(message_type.__dataclass_fields__)
