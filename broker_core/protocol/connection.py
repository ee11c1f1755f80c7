"""Both sides of a connection, without a socket: bytes in, messages out, and the other way round.

    client                                                   server
      send_request(message) -> correlation id                  receive_data(data)
      data_to_send()                     ──── bytes ────►      next_request() -> Request or None
      next_response() -> Response        ◄─── bytes ────       response_frame(request, message)

Answers come in the order of the requests. After MalformedMessageError a connection can only be closed; complete
messages before the malformed one are returned first.

A header's version follows from that of its message; the answer to ApiVersions always has the oldest header. A broker
that does not support the version of an ApiVersions request answers in version 0 with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32
from kio.static.protocol import RequestPayload, ResponsePayload
from typing_extensions import Buffer

from broker_core.model.exceptions import MalformedMessageError
from broker_core.protocol.api_table import ApiKey, MessageTypes, api_label, message_types, versions_with_schemas
from broker_core.protocol.frame import FrameReader, framed
from broker_core.protocol.message_reader import decode
from broker_core.protocol.message_writer import encode, encode_frame

_REQUEST_START: Final = struct.Struct(">hhi")
_CLIENT_ID_AT: Final = _REQUEST_START.size
_TEXT_SIZE: Final = struct.Struct(">h")
_CORRELATION_ID: Final = struct.Struct(">i")
_NO_TAGGED_FIELDS: Final = b"\0"
_ERROR_CODE: Final = struct.Struct(">h")
_MAX_CORRELATION_ID: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer. `message` has the version of its request, except a refused ApiVersions, which has version 0.

    `records` in it are views of the received frame.
    """

    correlation_id: int
    message: Any


class Request(NamedTuple):
    """A request. `message` is None if there is no schema for its key and version: then only these fields were read."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    message: Any | None
    size_bytes: int = 0
    """The size of its frame, without the length prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expected:
    correlation_id: int
    api_key: int
    version: int
    types: MessageTypes


class _Side:
    """Common to both sides: receives frames."""

    def __init__(self, *, max_frame_bytes: int) -> None:
        self.frames = FrameReader(max_frame_bytes=max_frame_bytes)

    def receive_data(self, data: Buffer) -> None:
        self.frames.receive_data(data)


class ClientSide(_Side):
    """The side that asks."""

    def __init__(self, *, client_id: str | None, max_frame_bytes: int) -> None:
        super().__init__(max_frame_bytes=max_frame_bytes)
        self._client_id = client_id
        self._next_correlation_id = 0
        self._expected: deque[_Expected] = deque()
        self._outgoing: list[Buffer] = []

    def data_to_send(self) -> Sequence[Buffer]:
        """Buffers to send in this order; each is returned once."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def send_request(self, message: RequestPayload, *, is_answered: bool = True) -> int:
        """Returns the correlation id. Only a produce request with acks=0 has no answer."""
        api_key, version = message.__api_key__, message.__version__
        types = message_types(api_key, version)
        correlation_id = self._next_correlation_id
        self._next_correlation_id = 0 if correlation_id == _MAX_CORRELATION_ID else correlation_id + 1
        header = types.request_header(
            request_api_key=i16(api_key),
            request_api_version=i16(version),
            correlation_id=i32(correlation_id),
            client_id=self._client_id,
        )
        self._outgoing.extend(framed(encode(header, message)))
        if is_answered:
            self._expected.append(
                _Expected(correlation_id=correlation_id, api_key=api_key, version=version, types=types)
            )
        return correlation_id

    def next_response(self) -> Response | None:
        """None: more bytes are needed. Raises MalformedMessageError."""
        frame = self.frames.next_frame()
        if frame is None:
            return None
        if not self._expected:
            raise MalformedMessageError(f"a response of {len(frame)} bytes without a request")
        expected = self._expected.popleft()
        types = expected.types
        header, position = decode(types.response_header, frame)
        if header.correlation_id != expected.correlation_id:
            raise MalformedMessageError(
                f"a response with correlation id {header.correlation_id}, expected that of"
                f" {api_label(expected.api_key)} request "
                f"{expected.correlation_id}"
            )
        if expected.api_key == ApiKey.API_VERSIONS and _is_refusal_of_version(frame, position):
            types = message_types(ApiKey.API_VERSIONS, 0)
        message, _ = decode(types.response, frame, position)
        return Response(correlation_id=header.correlation_id, message=message)


class ServerSide(_Side):
    """The answering side."""

    def next_request(self) -> Request | None:
        """None: more bytes are needed. Raises MalformedMessageError."""
        frame = self.frames.next_frame()
        if frame is None:
            return None
        if len(frame) < _REQUEST_START.size:
            raise MalformedMessageError(f"a request of {len(frame)} bytes is too short for a header")
        api_key, version, correlation_id = _REQUEST_START.unpack_from(frame)
        if version not in versions_with_schemas(api_key):
            return Request(
                api_key=api_key,
                api_version=version,
                correlation_id=correlation_id,
                client_id=None,
                message=None,
                size_bytes=len(frame),
            )
        types = message_types(api_key, version)
        client_id, position = _read_client_id(types, frame)
        # Bytes after it are ignored, as in Kafka: librdkafka 2.16 sends some after its Metadata requests.
        message, _ = decode(types.request, frame, position)
        return Request(
            api_key=api_key,
            api_version=version,
            correlation_id=correlation_id,
            client_id=client_id,
            message=message,
            size_bytes=len(frame),
        )


def response_frame(request: Request, message: ResponsePayload) -> tuple[Sequence[Buffer], int]:
    """(buffers to send in this order, their size in bytes). Answers must be sent in the order of the requests.

    `message` has the request's version, or is version 0 of ApiVersions for an unsupported version.
    """
    header = _CORRELATION_ID.pack(request.correlation_id)
    if message.__header_schema__.__flexible__:
        header += _NO_TAGGED_FIELDS
    return encode_frame(header, message)


def _read_client_id(types: MessageTypes, frame: memoryview) -> tuple[str | None, int]:
    """(the header, the position after it). Headers with tagged fields and malformed ones are rare: the general reader
    handles them."""
    header_type = types.request_header
    if len(frame) >= _CLIENT_ID_AT + _TEXT_SIZE.size:
        start = _CLIENT_ID_AT + _TEXT_SIZE.size
        (size,) = _TEXT_SIZE.unpack_from(frame, _CLIENT_ID_AT)
        end = start + size
        if size >= 0 and end < len(frame) and (not header_type.__flexible__ or frame[end] == 0):
            try:
                return str(frame[start:end], "utf-8"), end + header_type.__flexible__
            except UnicodeDecodeError:
                pass
    header, position = decode(header_type, frame)
    return header.client_id, position


def _is_refusal_of_version(frame: memoryview, position: int) -> bool:
    if len(frame) - position < _ERROR_CODE.size:
        return False
    (error_code,) = _ERROR_CODE.unpack_from(frame, position)
    return bool(error_code == ErrorCode.unsupported_version)
