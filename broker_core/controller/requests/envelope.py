"""Envelope (58), version 0: a broker sends a client's request on, with the client's name, and gets the answer back.

Only requests that may be forwarded are in one. The principal is ignored, as there is no authorizer.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker_core.controller.cluster_controller import ClusterController
from broker_core.controller.requests.controller_api import ControllerApi, Planned, Values
from broker_core.controller.requests.registry import CONTROLLER_APIS, FORWARDED
from broker_core.coordinator.contract import CoordinatorResult
from broker_core.model.exceptions import MalformedMessageError, RequestRefusedError
from broker_core.protocol.api_table import message_types
from broker_core.protocol.connection import Request, ServerSide, response_frame
from broker_core.protocol.message_builder import build

ENVELOPE: Final = 58
_LENGTH: Final = struct.Struct(">i")


def request_in(message: Any) -> Request:
    """Raises RequestRefusedError with UNSUPPORTED_VERSION, so that the client asks for versions again, or
    INVALID_REQUEST."""
    content = bytes(message.request_data)
    side = ServerSide(max_frame_bytes=max(len(content), 1))
    side.receive_data(_LENGTH.pack(len(content)) + content)
    try:
        request = side.next_request()
    except MalformedMessageError as error:
        raise RequestRefusedError(error.message, error_code=ErrorCode.invalid_request) from error
    if request is None or request.api_key not in FORWARDED:
        raise RequestRefusedError("this request cannot be forwarded", error_code=ErrorCode.invalid_request)
    if request.message is None or request.api_version not in CONTROLLER_APIS[request.api_key].versions:
        raise RequestRefusedError(
            f"version {request.api_version} is not supported", error_code=ErrorCode.unsupported_version
        )
    return request


def forwarded_api(request: Request) -> ControllerApi:
    """Plans and refuses what is in an envelope, with answers that are envelopes. That this node is not the active
    controller is told to the broker, which then asks another one; its client hears nothing of it."""
    api = CONTROLLER_APIS[request.api_key]
    answer_type = message_types(request.api_key, request.api_version).response

    def plan(controller: ClusterController, message: Any, now_ms: int) -> Planned:
        result = api.plan(controller, message, now_ms)
        return CoordinatorResult(records=result.records, reply=_sealed(request, build(answer_type, result.reply)))

    def refuse(message: Any, error_code: ErrorCode, text: str) -> Values:
        if error_code is ErrorCode.not_controller:
            return {"error_code": error_code}
        return _sealed(request, build(answer_type, api.refuse(message, error_code, text)))

    return ControllerApi(key=api.key, versions=api.versions, plan=plan, refuse=refuse)


def _sealed(request: Request, answer: Any) -> Values:
    buffers, _ = response_frame(request, answer)
    return {"response_data": b"".join(bytes(part) for part in buffers)[_LENGTH.size :]}
