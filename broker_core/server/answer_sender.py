"""Sends a connection's answers to its socket, without copying large ones.

    sender.send(parts, size_bytes)      after everything that waits already
    sender.pause(), sender.resume()     the transport's buffer is filled; it is empty, so call `continue_sending`

An asyncio transport copies the bytes that the socket does not take at once, and copies the rest again each time that
the socket takes some: several times for an answer of four megabytes. So while the transport's buffer is empty, the
parts go directly to the socket, all with one call. What the socket does not take waits here without a copy; the
transport gets only a small piece of it, and reports when the socket has taken that. If the transport must see all bytes
(TLS), it gets one piece at a time.

If the connection is broken, waiting parts are released at once and nothing is sent again: asyncio keeps an exception of
`write` for a turn, and with its frames the whole answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from typing_extensions import Buffer

HIGH_WATER_BYTES: Final = 1
"""The transport pauses the sender when it holds more. Not 0: the TLS transport would pause forever while it is
empty."""

_JOINED_BYTES: Final = 64 * 1024
"""If all parts together are smaller, they are joined first: many small parts cost more than a copy."""

_PIECE_BYTES: Final = 4096
"""The piece that the transport copies, each time that the socket is full."""

_TLS_PIECE_BYTES: Final = 256 * 1024
"""The piece that the transport encrypts at a time."""

_PARTS_AT_ONCE: Final = 64
"""The system's limit is 1024 (IOV_MAX)."""


class Transport(Protocol):
    """The used part of `asyncio.Transport`."""

    def write(self, data: Any) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def is_closing(self) -> bool: ...


class DirectSocket(Protocol):
    """The used part of a non-blocking `socket.socket`."""

    def send(self, data: Any) -> int: ...
    def sendmsg(self, buffers: Iterable[Any]) -> int: ...
    def recv_into(self, buffer: Any) -> int: ...


class AnswerSender:
    """`direct`: the transport's own socket, if bytes may be sent there directly. The transport's limits must be
    `HIGH_WATER_BYTES` and 0. `on_broken` is called once, possibly during `send`."""

    def __init__(self, transport: Transport, direct: DirectSocket | None, on_broken: Callable[[], None]) -> None:
        self._transport = transport
        self._direct = direct
        self._on_broken = on_broken
        self._is_broken = False
        self._waiting: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._is_paused = False

    @property
    def held_bytes(self) -> int:
        """Bytes that the socket has not taken."""
        return self._waiting_bytes + self._transport.get_write_buffer_size()

    @property
    def is_empty(self) -> bool:
        """Whether the socket has taken everything, as far as the transport reports."""
        return not self._waiting and not self._is_paused

    def send(self, parts: Sequence[Buffer], size_bytes: int) -> None:
        """`size_bytes` is the total of all parts. The caller must not change them afterwards."""
        if self._is_broken:
            return
        if size_bytes < _JOINED_BYTES:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            if not self._waiting and self._direct is not None and self._may_go_directly():
                sent = self._try_to_send(self._direct.send, data)
                if sent == size_bytes:
                    return
                if self._is_broken:
                    return
                data = memoryview(data)[sent:]
            parts = (data,)
        for part in parts:
            view = memoryview(part)
            self._waiting.append(view)
            self._waiting_bytes += len(view)
        self._send_waiting()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        """Call `continue_sending` as soon as the transport has finished its own work."""
        self._is_paused = False

    def continue_sending(self) -> None:
        """Sends the waiting parts, unless the transport's buffer was filled again meanwhile."""
        self._send_waiting()

    def _may_go_directly(self) -> bool:
        return not self._is_paused and not self._transport.get_write_buffer_size()

    def _send_waiting(self) -> None:
        while self._waiting and not self._is_paused:
            if self._transport.is_closing():
                self._mark_broken()
                return
            piece_bytes = _TLS_PIECE_BYTES
            if self._direct is not None and self._may_go_directly():
                # Until the socket is full: a broken socket raises an error only at the next call.
                sent = self._try_to_send(self._direct.sendmsg, islice(self._waiting, _PARTS_AT_ONCE))
                if sent:
                    self._take_off(sent)
                    continue
                piece_bytes = _PIECE_BYTES
            if self._waiting:
                # The transport calls `pause`, unless the socket has taken everything meanwhile.
                piece = self._waiting[0][:piece_bytes]
                self._take_off(len(piece))
                self._transport.write(piece)

    def _try_to_send(self, send: Callable[[Any], int], data: Buffer | Iterable[Buffer]) -> int:
        """Returns the number of sent bytes. `send` is a method of the socket."""
        try:
            return send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self._mark_broken()
            return 0

    def _mark_broken(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0
        if not self._is_broken:
            self._is_broken = True
            self._on_broken()

    def _take_off(self, byte_count: int) -> None:
        """Removes bytes from the front of the waiting parts."""
        self._waiting_bytes -= byte_count
        while byte_count:
            first = self._waiting[0]
            if byte_count < len(first):
                self._waiting[0] = first[byte_count:]
                return
            self._waiting.popleft()
            byte_count -= len(first)
