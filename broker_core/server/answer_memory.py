"""The memory of a node's answers that clients have not fetched yet.

Each connection reports how much it holds. If all connections together hold too much, or the node itself is at its limit
(appends that wait for the disk), no connection takes further requests until there is room again. Waiting connections
resume in the order in which they came.
"""

from __future__ import annotations

from collections.abc import Callable


class AnswerMemory:
    """Requests that are already in progress may exceed `limit_bytes`: it only applies to new requests. `is_node_full`
    is checked too; call `look` whenever its result may have changed."""

    def __init__(self, limit_bytes: int, *, is_node_full: Callable[[], bool] = lambda: False) -> None:
        self._limit_bytes = limit_bytes
        self._is_node_full = is_node_full
        self._waiting: dict[Callable[[], None], None] = {}
        self.held_bytes = 0

    @property
    def is_full(self) -> bool:
        return self.held_bytes >= self._limit_bytes or self._is_node_full()

    @property
    def room_bytes(self) -> int:
        """The remaining room for answers."""
        return max(0, self._limit_bytes - self.held_bytes)

    def change(self, by_bytes: int) -> None:
        self.held_bytes += by_bytes
        self.look()

    def look(self) -> None:
        """Resumes waiting connections as long as there is room."""
        while self._waiting and not self.is_full:
            resume = next(iter(self._waiting))
            del self._waiting[resume]
            resume()

    def wait(self, resume: Callable[[], None]) -> None:
        """Calls `resume` once there is room."""
        self._waiting[resume] = None

    def forget(self, resume: Callable[[], None]) -> None:
        self._waiting.pop(resume, None)
