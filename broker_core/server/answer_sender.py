"""The last step of a connection's answers: to its socket, without a copy of what is large.

    sender.send(parts, size_bytes)      behind what waits already
    sender.pause(), sender.resume()     the transport holds something; it has nothing left, and `go_on` is due

A transport of asyncio copies what the socket does not take at once, and copies that again each time that some of it has
gone: an answer of four megabytes several times. So parts go to the socket itself, all with one call, as long as the
transport holds nothing. What the socket does not take waits here, as it is; the transport gets a small piece of it,
and says when the socket has taken that. Where the transport has to see all bytes (TLS), it gets a piece at a time.

When the connection turns out to be broken what waits is let go at once, and nothing is tried again: asyncio keeps an
exception of `write` for a turn, and with its frames the whole answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from typing_extensions import Buffer

HIGH_WATER_BYTES: Final = 1
"""The transport says so as soon as it holds more. Not 0: that of TLS would stop for ever, having nothing."""

_JOINED_BYTES: Final = 64 * 1024
"""Parts that are fewer bytes than this all together are put into one first: many small ones cost more than a copy."""

_PIECE_BYTES: Final = 4096
"""Which the transport copies, each time that the socket is full."""

_TLS_PIECE_BYTES: Final = 256 * 1024
"""Which the transport encrypts at a time."""

_PARTS_AT_ONCE: Final = 64
"""The system takes 1024 (IOV_MAX)."""


class Transport(Protocol):
    """What is used of `asyncio.Transport`."""

    def write(self, data: Any) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def is_closing(self) -> bool: ...


class DirectSocket(Protocol):
    """What is used of a `socket.socket` that does not block."""

    def send(self, data: Any) -> int: ...
    def sendmsg(self, buffers: Iterable[Any]) -> int: ...
    def recv_into(self, buffer: Any) -> int: ...


class AnswerSender:
    """`direct`: the transport's own socket, if bytes may go there without it. The transport's limits are to be
    `HIGH_WATER_BYTES` and 0. `on_broken` is called once, and may be in the middle of a `send`."""

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
        """Which the socket has not taken."""
        return self._waiting_bytes + self._transport.get_write_buffer_size()

    @property
    def is_empty(self) -> bool:
        """Whether the socket has got everything, as far as the transport tells."""
        return not self._waiting and not self._is_paused

    def send(self, parts: Sequence[Buffer], size_bytes: int) -> None:
        """`size_bytes`: of all of them. They must not change any more."""
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
        """`go_on` is due, as soon as the transport is not in the middle of its own work."""
        self._is_paused = False

    def go_on(self) -> None:
        """Sends what waits, unless the transport has got something again meanwhile."""
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
                # Until the socket says that it is full: a broken one says so only then.
                sent = self._try_to_send(self._direct.sendmsg, islice(self._waiting, _PARTS_AT_ONCE))
                if sent:
                    self._take_off(sent)
                    continue
                piece_bytes = _PIECE_BYTES
            if self._waiting:
                # It pauses this unless the socket has taken all of it meanwhile.
                piece = self._waiting[0][:piece_bytes]
                self._take_off(len(piece))
                self._transport.write(piece)

    def _try_to_send(self, send: Callable[[Any], int], data: Buffer | Iterable[Buffer]) -> int:
        """How much was sent, by one of the socket's ways to send."""
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
        """From the front of what waits."""
        self._waiting_bytes -= byte_count
        while byte_count:
            first = self._waiting[0]
            if byte_count < len(first):
                self._waiting[0] = first[byte_count:]
                return
            self._waiting.popleft()
            byte_count -= len(first)
