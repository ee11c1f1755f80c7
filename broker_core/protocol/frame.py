"""Frames: every message on the wire has a length prefix of four bytes.

    frames.receive_data(data)                     received bytes, in any pieces
    frames.buffer_to_fill() / .bytes_received(n)  the same without a copy: large frames are received in place
    frames.next_frame()                           a whole frame without its prefix, or None

A size is checked before anything is allocated, and memory grows with the received bytes, not with the announced ones: a
hundred clients that announce the largest frame and send nothing cost almost nothing. A frame is a writable view of its
own memory. Whole frames before an invalid size are returned before the error is raised.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from typing_extensions import Buffer

from broker_core.model.exceptions import MalformedMessageError

SIZE_BYTES: Final = 4
SCRATCH_BYTES: Final = 64 * 1024
"""The receive buffer for small frames."""

TRUSTED_BYTES: Final = 256 * 1024
"""A frame up to this size is allocated at once; a larger one doubles its buffer whenever that is full."""

_SIZE: Final = struct.Struct(">i")
_HTTP_REQUESTS: Final = frozenset({b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PRI "})


class FrameReader:
    """Splits a stream into frames. After an invalid size the stream is lost: the next frame cannot be found."""

    def __init__(self, *, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        """May be changed at any time; applies to frames whose size was not received yet."""
        self._size = bytearray()
        self._frame: memoryview | None = None
        self._frame_bytes = 0
        self._filled = 0
        self._done: deque[memoryview] = deque()
        self._scratch: bytearray | None = None
        self._lost: MalformedMessageError | None = None

    def receive_data(self, data: Buffer) -> None:
        """Bytes after a size that is negative or above `max_frame_bytes` are ignored."""
        view = memoryview(data).cast("B")
        while len(view) and self._lost is None:
            view = view[self._take_whole_frame(view) or self._take(view) :]

    def buffer_to_fill(self) -> memoryview:
        """The buffer for the next bytes, never empty. Call `bytes_received` afterwards."""
        if self._frame is not None and self._frame_bytes - self._filled >= SCRATCH_BYTES:
            return self._frame[self._filled :]
        if self._scratch is None:
            self._scratch = bytearray(SCRATCH_BYTES)
        return memoryview(self._scratch)

    def bytes_received(self, count: int) -> None:
        """`count` bytes were written to the start of the buffer from `buffer_to_fill`."""
        if self._frame is not None and self._frame_bytes - self._filled >= SCRATCH_BYTES:
            self._filled += count
            self._finish_if_full()
        else:
            assert self._scratch is not None, "bytes_received without buffer_to_fill"
            self.receive_data(memoryview(self._scratch)[:count])

    def next_frame(self) -> memoryview | None:
        """Raises MalformedMessageError where the next one would begin, if its size is negative or above
        `max_frame_bytes`."""
        if self._done:
            return self._done.popleft()
        if self._lost is not None:
            raise self._lost
        return None

    def _take_whole_frame(self, view: memoryview) -> int:
        """The same for a frame that arrived at once, as nearly every small one does; 0: it is none, or not allowed."""
        if self._frame is not None or self._size or len(view) < SIZE_BYTES:
            return 0
        (size,) = _SIZE.unpack_from(view)
        end = SIZE_BYTES + size
        if not 0 <= size <= self.max_frame_bytes or end > len(view):
            return 0
        self._done.append(memoryview(bytearray(view[SIZE_BYTES:end])))
        return int(end)

    def _take(self, view: memoryview) -> int:
        """Returns the number of consumed bytes, at least one."""
        if self._frame is None:
            taken = min(SIZE_BYTES - len(self._size), len(view))
            self._size += view[:taken]
            if len(self._size) == SIZE_BYTES:
                self._begin_frame()
            return taken
        taken = min(len(self._frame) - self._filled, len(view))
        self._frame[self._filled : self._filled + taken] = view[:taken]
        self._filled += taken
        self._finish_if_full()
        return taken

    def _begin_frame(self) -> None:
        (size,) = _SIZE.unpack(self._size)
        if not 0 <= size <= self.max_frame_bytes:
            self._lost = MalformedMessageError(
                f"a message of {size} bytes was announced, but at most {self.max_frame_bytes} are allowed"
                f"{self._foreign_protocol()}",
                size_bytes=size,
            )
            return
        self._size.clear()
        self._frame = memoryview(bytearray(min(size, TRUSTED_BYTES)))
        self._frame_bytes = size
        self._filled = 0
        self._finish_if_full()

    def _finish_if_full(self) -> None:
        if self._frame is None or self._filled < len(self._frame):
            return
        if self._filled < self._frame_bytes:
            grown = memoryview(bytearray(min(2 * len(self._frame), self._frame_bytes)))
            grown[: self._filled] = self._frame
            self._frame = grown
            return
        self._done.append(self._frame)
        self._frame = None

    def _foreign_protocol(self) -> str:
        """A hint if the four bytes look like another protocol."""
        start = bytes(self._size)
        if start == b"HTTP":
            return ": the peer sent an HTTP response, so it is not a Kafka port"
        if start in _HTTP_REQUESTS:
            return ": the peer sent an HTTP request to a Kafka port"
        if start[:2] in (b"\x15\x03", b"\x16\x03"):
            return ": the peer uses TLS, but this side does not (security.protocol)"
        return ""


def framed(parts: Iterable[Buffer]) -> Sequence[Buffer]:
    """The parts of one message after their length prefix."""
    listed = list(parts)
    return [_SIZE.pack(sum(memoryview(part).nbytes for part in listed)), *listed]
