"""The answers of one connection, sent in the order of its requests, in whichever order they become ready.

place = queue.add(request_bytes)
queue.fill(place, parts, bytes)     parts of a frame; empty: nothing is sent
queue.take_ready()                  the answers that can be sent now
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import Buffer


@dataclass(slots=True, eq=False)
class QueuedAnswer:
    """The answer of one request. `parts` is None until it is ready. `closes`: the connection ends after this answer."""

    request_bytes: int
    parts: Sequence[Buffer] | None = None
    size_bytes: int = 0
    closes: bool = False


class AnswerQueue:
    """`open_count` and `open_bytes` are of unanswered requests, `ready_bytes` of answers that wait for earlier ones."""

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
        """`size_bytes` is the total of all parts."""
        assert place.parts is None, "a request was answered twice"
        place.parts = parts
        place.size_bytes = size_bytes
        self.open_count -= 1
        self.open_bytes -= place.request_bytes
        self.ready_bytes += size_bytes

    def take_ready(self) -> list[QueuedAnswer]:
        """Removes and returns the ready answers at the front. Returns none after an answer that closes."""
        ready: list[QueuedAnswer] = []
        while self._places and self._places[0].parts is not None and not self._is_over:
            place = self._places.popleft()
            self.ready_bytes -= place.size_bytes
            ready.append(place)
            self._is_over = place.closes
        return ready
