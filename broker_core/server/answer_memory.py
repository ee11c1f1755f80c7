"""How much memory the answers of a node take that nobody has fetched yet.

Each connection says how much it holds. When all together hold too much, or the node itself has as much as it should (of
appends that wait for the disk), no connection takes further requests until there is room again; those that wait are
told in the order they came.
"""

from __future__ import annotations

from collections.abc import Callable


class AnswerMemory:
    """`limit_bytes` may be passed by what is already at work: it decides about new requests only. `is_node_full` is
    asked too; when it may have changed, `look` is to be called."""

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
        """What answers may still take."""
        return max(0, self._limit_bytes - self.held_bytes)

    def change(self, by_bytes: int) -> None:
        self.held_bytes += by_bytes
        self.look()

    def look(self) -> None:
        """Tells those that wait, as long as there is room."""
        while self._waiting and not self.is_full:
            resume = next(iter(self._waiting))
            del self._waiting[resume]
            resume()

    def wait(self, resume: Callable[[], None]) -> None:
        """Calls `resume` once there is room."""
        self._waiting[resume] = None

    def forget(self, resume: Callable[[], None]) -> None:
        self._waiting.pop(resume, None)
