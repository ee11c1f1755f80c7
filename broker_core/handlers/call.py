"""One request while it is handled: the message, its client, and the answer.

A handler calls `respond` before it returns, or keeps the call and answers later (a produce that waits for the disk, a
fetch that waits for records, a join that waits for members). Each call is answered once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, TypeVar

from kio.static.protocol import ResponsePayload

from broker_core.broker.broker_node import BrokerNode
from broker_core.handlers.request_meter import RequestMeter
from broker_core.model.access_control import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType
from broker_core.protocol.api_table import ApiKey, message_types
from broker_core.protocol.connection import Request
from broker_core.protocol.message_builder import build

Value = TypeVar("Value")

QUOTA_EXCEEDED: Final = "The throttling quota has been exceeded."
"""Kafka's words for THROTTLING_QUOTA_EXCEEDED."""

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionEnd:
    """Closes the connection instead of an answer, and logs the reason."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottledAnswer:
    """Sent at once; then nothing is read from the client for `throttle_ms`. `message` None: there is no answer."""

    message: ResponsePayload | None
    throttle_ms: int


Answer = ResponsePayload | ConnectionEnd | ThrottledAnswer | None
Send = Callable[[Answer], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The client of a connection. `principal` is like "User:alice"; `listener` is the listener's name."""

    client_host: str
    client_port: int
    listener: str
    principal: str
    connection_id: int

    def __str__(self) -> str:
        return f"{self.client_host}:{self.client_port}"


class Call:
    """A request and its one answer."""

    __slots__ = ("_send", "is_answered", "message", "meter", "node", "now_ms", "peer", "request")

    def __init__(self, *, node: BrokerNode, request: Request, peer: Peer, send: Send, now_ms: int) -> None:
        self.node = node
        self.request = request
        self.peer = peer
        self.now_ms = now_ms
        self.message: Any = request.message
        """kio's dataclass of the request's version."""
        self.is_answered = False
        self.meter: RequestMeter | None = None
        """Set by `dispatch` while somebody has a quota."""
        self._send = send

    @property
    def api_key(self) -> ApiKey:
        return ApiKey(self.request.api_key)

    @property
    def version(self) -> int:
        return self.request.api_version

    @property
    def client_id(self) -> str:
        return self.request.client_id or ""

    @property
    def client_host(self) -> str:
        return self.peer.client_host

    @property
    def listener(self) -> str:
        return self.peer.listener

    @property
    def principal(self) -> str:
        return self.peer.principal

    def request_field(self, name: str, default: Any) -> Any:
        """A field that is missing in some versions of the request."""
        return getattr(self.message, name, default)

    def respond(self, **fields: Any) -> None:
        """Answers in the request's version; see `protocol.message_builder` for how fields are given."""
        self.respond_with(build(message_types(self.request.api_key, self.request.api_version).response, fields))

    def respond_with(self, message: ResponsePayload) -> None:
        """Answers with a message of the right version."""
        self._answer(message)

    def respond_nothing(self) -> None:
        """A produce request with acks=0 gets no answer."""
        self._answer(None)

    def is_allowed(
        self,
        operation: Operation,
        resource_type: ResourceType,
        name: str = CLUSTER_NAME,
        *,
        log_if_denied: bool = True,
    ) -> bool:
        """Whether the access rules allow it; without an authorizer everything is allowed.

        A refusal is logged, except where the client does not see one: a resource is left out, or another need is
        checked.
        """
        authorizer = self.node.authorizer
        return authorizer is None or authorizer.authorize(
            self.principal, self.client_host, operation, resource_type, name, log_if_denied=log_if_denied
        )

    def allowed_operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME) -> frozenset[Operation]:
        """The operations that the client may perform on a resource (KIP-430)."""
        return frozenset(
            operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self.is_allowed(operation, resource_type, name, log_if_denied=False)
        )

    def may_change_partitions(self, count: int) -> bool:
        """Whether the client's quota lets it create or delete so many partitions; they count if it does."""
        return self.meter is None or self.meter.take_mutations(count)

    def close_connection(self, reason: str) -> None:
        """For requests without a possible answer: closes the connection."""
        self._answer(ConnectionEnd(reason=reason))

    def after_job(self, work: Callable[[], Value], respond: Callable[[Value], None]) -> None:
        """Runs `work` in a job, where it may block, then calls `respond` with its result. An exception in either is a
        programming error and closes the connection, so that the client does not wait forever."""

        def failed(error: Exception) -> None:
            _log.error("api=%s version=%d peer=%s failed", self.api_key.label, self.version, self.peer, exc_info=error)
            if not self.is_answered:
                self.close_connection(f"{self.api_key.label} could not be answered")

        def done(value: Value) -> None:
            try:
                respond(value)
            except Exception as error:
                failed(error)

        self.node.jobs.submit(work, done, failed)

    def _answer(self, message: ResponsePayload | ConnectionEnd | None) -> None:
        assert not self.is_answered, f"{self.api_key.label} of {self.peer} was answered twice"
        self.is_answered = True
        if self.meter is None or isinstance(message, ConnectionEnd):
            self._send(message)
        else:
            self._send(_throttled(message, self.meter.on_answer(message)))


def _throttled(message: ResponsePayload | None, throttle_ms: int) -> Answer:
    if not throttle_ms:
        return message
    told: Any = message
    if hasattr(message, "throttle_time"):
        told = replace(told, throttle_time=timedelta(milliseconds=throttle_ms))
    return ThrottledAnswer(message=told, throttle_ms=throttle_ms)
