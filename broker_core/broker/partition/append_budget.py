"""The memory budget of a node for appends, and the replicas that wait for it.

A replica calls `may_write` before it starts to write; beyond the limit it waits, in order of arrival. Nothing is
refused. If `is_full`, the driver should read no more requests for now: unread requests wait in the clients' buffers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from broker_core.model.limits import MAX_QUEUED_APPEND_BYTES, MAX_WRITING_BYTES


class AppendBudget:
    """The bytes of one node's appends: those without an answer, and those being written."""

    def __init__(
        self, *, max_writing_bytes: int = MAX_WRITING_BYTES, max_queued_bytes: int = MAX_QUEUED_APPEND_BYTES
    ) -> None:
        self._max_writing_bytes = max_writing_bytes
        self._max_queued_bytes = max_queued_bytes
        self._writing_bytes = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self.held_bytes = 0
        """Bytes of all unanswered appends."""

    @property
    def is_full(self) -> bool:
        """Unanswered appends have reached the limit: read no more requests until it is less."""
        return self.held_bytes >= self._max_queued_bytes

    def hold(self, size_bytes: int) -> None:
        """An append was queued."""
        self.held_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """It was answered."""
        self.held_bytes -= size_bytes
        assert self.held_bytes >= 0, f"{self.held_bytes} bytes of appends are held"

    def may_write(self, size_bytes: int, when_free: Callable[[], None]) -> bool:
        """Reserves the bytes for a write if they are free and no replica waits. Else `when_free` is called once, later;
        the caller then tries again. A single write is always admitted, of any size."""
        is_free = not self._writing_bytes or self._writing_bytes + size_bytes <= self._max_writing_bytes
        if is_free and not self._waiting:
            self._writing_bytes += size_bytes
            return True
        self._waiting.append(when_free)
        return False

    def written(self, size_bytes: int) -> None:
        """A write ended: the waiting replicas try again, in order, until one of them has to wait again."""
        self._writing_bytes -= size_bytes
        assert self._writing_bytes >= 0, f"{self._writing_bytes} bytes of appends are being written"
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, deque()
        while waiting and not self._waiting:
            waiting.popleft()()
        # The one that has to wait again was the first of all.
        self._waiting.extend(waiting)
