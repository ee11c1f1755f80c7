"""How much of a node's memory appends may hold that are being written, and who waits for it.

A replica asks before it begins to write; beyond the bound it waits, and those that wait get their turn in the order in
which they began to. Nothing is refused. `is_full` tells the driver to read no more requests for now: what clients have
not been read from waits in their own buffers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from broker_core.model.limits import MAX_QUEUED_APPEND_BYTES, MAX_WRITING_BYTES


class AppendBudget:
    """Bytes of batches of one node: queued ones, and those being written."""

    def __init__(
        self, *, max_writing_bytes: int = MAX_WRITING_BYTES, max_queued_bytes: int = MAX_QUEUED_APPEND_BYTES
    ) -> None:
        self._max_writing_bytes = max_writing_bytes
        self._max_queued_bytes = max_queued_bytes
        self._writing_bytes = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self.held_bytes = 0
        """Of all appends that are not answered yet."""

    @property
    def is_full(self) -> bool:
        """Appends hold as much as they should: take no more from clients until it is less."""
        return self.held_bytes >= self._max_queued_bytes

    def hold(self, size_bytes: int) -> None:
        """An append was queued."""
        self.held_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """It was answered."""
        self.held_bytes -= size_bytes
        assert self.held_bytes >= 0, f"{self.held_bytes} bytes of appends are held"

    def may_write(self, size_bytes: int, when_free: Callable[[], None]) -> bool:
        """Takes the bytes for a job, if they are free and nobody waits. Else `when_free` is called once, later; who
        then still wants to write asks again. One job is always let through, however large."""
        is_free = not self._writing_bytes or self._writing_bytes + size_bytes <= self._max_writing_bytes
        if is_free and not self._waiting:
            self._writing_bytes += size_bytes
            return True
        self._waiting.append(when_free)
        return False

    def written(self, size_bytes: int) -> None:
        """A job ended: those that wait ask again, in order, until one of them has to wait once more."""
        self._writing_bytes -= size_bytes
        assert self._writing_bytes >= 0, f"{self._writing_bytes} bytes of appends are being written"
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, deque()
        while waiting and not self._waiting:
            waiting.popleft()()
        # The one that had to wait once more was the first of them all.
        self._waiting.extend(waiting)
