"""Envelope (58), version 0: a broker sends a client's request on, with the client's name, and gets the answer back.

    broker                                                         active controller
      sealed = SealedRequest(request, principal=…, host=…)
      sealed.message                              ── Envelope ──►     request_in(message), forwarded_api(request)
      sealed.answer_in(response)                  ◄─────────────

Only requests that may be forwarded are in one. What the client may do is decided by its own principal and address
(`access`), not by those of the broker, which needs CLUSTER_ACTION to send envelopes at all; and by its quota, see
`mutation_limits`.
"""

from __future__ import annotations

import struct
from datetime import timedelta
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.requests.controller_api import ControllerApi, Planned, Values
from broker_core.controller.requests.registry import IN_ENVELOPES
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.model.exceptions import MalformedMessageError, RequestRefusedError
from broker_core.model.limits import MAX_RESPONSE_FRAME_BYTES
from broker_core.protocol.api_table import message_types
from broker_core.protocol.connection import ClientSide, Request, ServerSide, response_frame
from broker_core.protocol.message_builder import build
from broker_core.protocol.message_reader import decode
from broker_core.protocol.message_writer import encode
from broker_core.quota.quota_table import QuotaClient

ENVELOPE: Final = 58
_LENGTH: Final = struct.Struct(">i")
_VERSION: Final = struct.Struct(">h")
FIRST_STRICT_VERSION: Final = {19: 6, 20: 5, 37: 3}
"""CreateTopics, DeleteTopics, CreatePartitions: from here on clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""


class ForwardedRequest(Request):
    """With the client that sent it to a broker: its principal, such as User:alice, and its address."""

    principal: str = ""
    host: str = ""


def request_in(message: Any) -> ForwardedRequest:
    """Raises RequestRefusedError with UNSUPPORTED_VERSION, so that the client asks for versions again,
    PRINCIPAL_DESERIALIZATION_FAILURE or INVALID_REQUEST."""
    content = bytes(message.request_data)
    side = ServerSide(max_frame_bytes=max(len(content), 1))
    side.receive_data(_LENGTH.pack(len(content)) + content)
    try:
        request = side.next_request()
    except MalformedMessageError as error:
        raise RequestRefusedError(error.message, error_code=ErrorCode.invalid_request) from error
    if request is None or request.api_key not in IN_ENVELOPES:
        raise RequestRefusedError("this request cannot be forwarded", error_code=ErrorCode.invalid_request)
    if request.message is None or request.api_version not in IN_ENVELOPES[request.api_key]:
        raise RequestRefusedError(
            f"version {request.api_version} is not supported", error_code=ErrorCode.unsupported_version
        )
    forwarded = ForwardedRequest(*request)
    forwarded.principal, forwarded.host = _principal_in(message), _host_in(message)
    return forwarded


def forwarded_api(request: ForwardedRequest, api: ControllerApi) -> ControllerApi:
    """Plans and refuses what is in an envelope as `api` does, with answers that are envelopes. That this node is not
    the active controller is told to the broker, which then asks another one; its client hears nothing of it."""
    answer_type = message_types(request.api_key, request.api_version).response

    def plan(controller: ClusterController, message: Any, now_ms: int) -> Planned:
        if request.api_key in FIRST_STRICT_VERSION:
            result = _plan_within_quota(controller, request, api, now_ms)
        else:
            result = api.plan(controller, message, now_ms)
        return CoordinatorResult(records=result.records, reply=sealed_answer(request, build(answer_type, result.reply)))

    def refuse(message: Any, error_code: ErrorCode, text: str) -> Values:
        if error_code is ErrorCode.not_controller:
            return {"error_code": error_code}
        return sealed_answer(request, build(answer_type, api.refuse(message, error_code, text)))

    return ControllerApi(key=api.key, versions=api.versions, plan=plan, refuse=refuse)


def _plan_within_quota(
    controller: ClusterController, request: ForwardedRequest, api: ControllerApi, now_ms: int
) -> Planned:
    """The answer tells the broker for how long its client is throttled."""
    client = QuotaClient(request.principal.partition(":")[2], request.client_id or "")
    is_strict = request.api_version >= FIRST_STRICT_VERSION[request.api_key]
    controller.mutations.begin(controller.image.client_quotas, client, is_strict=is_strict)
    try:
        result = api.plan(controller, request.message, now_ms)
    finally:
        throttle_ms = controller.mutations.end(now_ms)
    reply = {**result.reply, "throttle_time": timedelta(milliseconds=throttle_ms)}
    return CoordinatorResult(records=result.records, reply=reply)


class SealedRequest:
    """A client's request with who sent it, to be sent on. `principal` is like "User:alice"."""

    def __init__(self, request: Request, *, principal: str, host: str) -> None:
        from kio.schema.default_principal_data.v0.data import DefaultPrincipalData

        self._side = ClientSide(client_id=request.client_id, max_frame_bytes=MAX_RESPONSE_FRAME_BYTES)
        assert request.message is not None, request
        self._side.send_request(request.message)
        framed = b"".join(bytes(part) for part in self._side.data_to_send())
        kind, _, name = principal.partition(":")
        who = build(DefaultPrincipalData, {"type_": kind, "name": name, "token_authenticated": False})
        fields = {
            "request_data": framed[_LENGTH.size :],
            "request_principal": _VERSION.pack(0) + b"".join(bytes(part) for part in encode(who)),
            "client_host_address": ip_address(host.partition("%")[0]).packed,
        }
        self.message = build(message_types(ENVELOPE, 0).request, fields)

    def answer_in(self, response: Any) -> Any:
        """The client's answer. Raises RequestRefusedError: the controller did not open the envelope."""
        if response.error_code is not ErrorCode.none or response.response_data is None:
            raise RequestRefusedError(f"Envelope: {response.error_code.name}", error_code=response.error_code)
        data = bytes(response.response_data)
        self._side.receive_data(_LENGTH.pack(len(data)) + data)
        answer = self._side.next_response()
        assert answer is not None, "a whole frame was received"
        return answer.message


def _principal_in(message: Any) -> str:
    """As a Kafka broker writes it; a broker with another principal builder cannot forward these requests."""
    from kio.schema.default_principal_data.v0.data import DefaultPrincipalData

    data = bytes(message.request_principal or b"")
    if data[: _VERSION.size] != _VERSION.pack(0):
        raise RequestRefusedError(
            "the principal is not Kafka's", error_code=ErrorCode.principal_deserialization_failure
        )
    try:
        found, _ = decode(DefaultPrincipalData, memoryview(data)[_VERSION.size :])
    except MalformedMessageError as error:
        raise RequestRefusedError(error.message, error_code=ErrorCode.principal_deserialization_failure) from error
    return f"{found.type_}:{found.name}"


def _host_in(message: Any) -> str:
    try:
        address = ip_address(bytes(message.client_host_address))
    except ValueError as error:
        raise RequestRefusedError("the client's address is none", error_code=ErrorCode.invalid_request) from error
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def sealed_answer(request: Request, answer: Any) -> Values:
    """The fields of the envelope that an answer goes back in."""
    buffers, _ = response_frame(request, answer)
    return {"response_data": b"".join(bytes(part) for part in buffers)[_LENGTH.size :]}
