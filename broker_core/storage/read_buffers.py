"""Reused memory for large reads: the page faults of a fresh megabyte cost more than the copy into it.

    view = buffers.take(size_bytes)     None: no buffer is free, or the read is too small

Buffers are not released explicitly. A buffer is idle when no view of it exists, nor any object that shares its memory.
Python counts these exports, because an exported bytearray must not change its size.
"""

from __future__ import annotations

from collections import deque
from typing import Final

LEAST_BYTES: Final = 128 * 1024
"""Smaller reads use memory that malloc already has (M_MMAP_THRESHOLD)."""


class ReadBuffers:
    """For all threads, without a lock: a thread takes a buffer out of the list before it checks it. Keeps about
    `kept_bytes` of memory, plus what threads allocate at the same instant."""

    def __init__(self, *, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        self._buffers: deque[bytearray] = deque()

    def take(self, size_bytes: int) -> memoryview | None:
        """The view's content is undefined."""
        if not LEAST_BYTES <= size_bytes <= self._kept_bytes:
            return None
        buffer = self._maybe_idle(size_bytes)
        if buffer is None:
            buffer = self._maybe_new(size_bytes)
        if buffer is None:
            return None
        # Before the buffer is in the list again: from then on all threads see it in use.
        view = memoryview(buffer)[:size_bytes]
        self._buffers.append(buffer)
        return view

    def _maybe_idle(self, least_bytes: int) -> bytearray | None:
        """Prefers the buffer that was used last, which is most likely still in the processor's cache."""
        for _ in range(len(self._buffers)):
            try:
                buffer = self._buffers.pop()
            except IndexError:
                break  # other threads check the rest
            if len(buffer) >= least_bytes and _is_idle(buffer):
                return buffer
            self._buffers.appendleft(buffer)
        return None

    def _maybe_new(self, least_bytes: int) -> bytearray | None:
        """A new buffer. Its size is a power of two, so that reads of similar sizes share it. Idle buffers, which are
        all too small, make room for it."""
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
