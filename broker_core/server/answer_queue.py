"""The answers of one connection, in the order of its requests, whichever is ready first.

place = queue.add(request_bytes)
queue.fill(place, parts, bytes)     parts of a frame; empty: nothing is sent
queue.take_ready()                  what can go out now
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import Buffer


@dataclass(slots=True, eq=False)
class QueuedAnswer:
    """Of one request. `parts` None: it is not answered yet. `closes`: nothing follows its answer."""

    request_bytes: int
    parts: Sequence[Buffer] | None = None
    size_bytes: int = 0
    closes: bool = False


class AnswerQueue:
    """Counts are of requests that are not answered, bytes of answers those that are and have to wait."""

    def __init__(self) -> None:
        self._places: deque[QueuedAnswer] = deque()
        self._is_over = False
        self.open_count = 0
        self.open_bytes = 0
        self.ready_bytes = 0

    def add(self, request_bytes: int) -> QueuedAnswer:
        place = QueuedAnswer(request_bytes)
        self._places.append(place)
        self.open_count += 1
        self.open_bytes += request_bytes
        return place

    def fill(self, place: QueuedAnswer, parts: Sequence[Buffer], size_bytes: int) -> None:
        """`size_bytes`: of all parts together."""
        assert place.parts is None, "a request is answered twice"
        place.parts = parts
        place.size_bytes = size_bytes
        self.open_count -= 1
        self.open_bytes -= place.request_bytes
        self.ready_bytes += size_bytes

    def take_ready(self) -> list[QueuedAnswer]:
        """Those at the front that are answered; they are forgotten here. None any more behind one that closes."""
        ready: list[QueuedAnswer] = []
        while self._places and self._places[0].parts is not None and not self._is_over:
            place = self._places.popleft()
            self.ready_bytes -= place.size_bytes
            ready.append(place)
            self._is_over = place.closes
        return ready
