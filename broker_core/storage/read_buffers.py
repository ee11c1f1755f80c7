"""Memory for large reads, used again: fresh memory of a megabyte costs the system more, page by page, than the copy
into it.

    view = buffers.take(size_bytes)     None: there is none to spare, or it is not worth it

Nobody gives memory back. A buffer is idle when there is no view of it any more, nor anything that was made from one
without a copy; Python keeps count of them, because a bytearray that is looked at must not change its size.
"""

from __future__ import annotations

from collections import deque
from typing import Final

LEAST_BYTES: Final = 128 * 1024
"""Less comes from memory that malloc has (M_MMAP_THRESHOLD)."""


class ReadBuffers:
    """For all threads, without a lock: whoever looks at a buffer has taken it out of the list. About `kept_bytes` of
    memory are kept, more by what threads make at one instant."""

    def __init__(self, *, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        self._buffers: deque[bytearray] = deque()

    def take(self, size_bytes: int) -> memoryview | None:
        """What is in it is no matter."""
        if not LEAST_BYTES <= size_bytes <= self._kept_bytes:
            return None
        buffer = self._maybe_idle(size_bytes)
        if buffer is None:
            buffer = self._maybe_new(size_bytes)
        if buffer is None:
            return None
        # Before it is in the list again: from then on it is in use for everybody.
        view = memoryview(buffer)[:size_bytes]
        self._buffers.append(buffer)
        return view

    def _maybe_idle(self, least_bytes: int) -> bytearray | None:
        """The one that was used last, if it can be: the processor still has it at hand."""
        for _ in range(len(self._buffers)):
            try:
                buffer = self._buffers.pop()
            except IndexError:
                break  # other threads look at the rest
            if len(buffer) >= least_bytes and _is_idle(buffer):
                return buffer
            self._buffers.appendleft(buffer)
        return None

    def _maybe_new(self, least_bytes: int) -> bytearray | None:
        """Of a power of two, so that reads of about a size share it. Idle ones, all too small, make room for it."""
        size_bytes = min(1 << (least_bytes - 1).bit_length(), self._kept_bytes)
        for _ in range(len(self._buffers)):
            if self._has_room(size_bytes):
                break
            try:
                buffer = self._buffers.popleft()
            except IndexError:
                break
            if not _is_idle(buffer):
                self._buffers.append(buffer)
        if not self._has_room(size_bytes):
            return None
        buffer = bytearray(size_bytes + 1)
        buffer.pop()  # leaves room for the byte of `_is_idle`
        return buffer

    def _has_room(self, size_bytes: int) -> bool:
        return sum(map(len, tuple(self._buffers))) + size_bytes <= self._kept_bytes


def _is_idle(buffer: bytearray) -> bool:
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True
