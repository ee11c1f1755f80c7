"""Sends the next fetch while the last one is decoded: for logs that are read over a network.

    ahead = FetchAhead(fetch)
    ahead.begin(offset)          returns at once; `fetch(offset)` runs in a thread
    ahead.take(offset)           waits, then returns the answer or raises the fetch's error

At most one fetch is ahead, so it costs one more buffer. A fetch that is never taken ends by itself and is discarded;
its thread blocks nothing, not even the exit of the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class FetchAhead(Generic[Answer]):
    """Used by one thread. `fetch` is called in another one, so it must be thread-safe."""

    def __init__(self, fetch: Callable[[int], Answer]) -> None:
        self._fetch = fetch
        self._begun: _Begun[Answer] | None = None

    def begin(self, offset: int) -> None:
        """Replaces a fetch that was begun before and not taken."""
        self._begun = _Begun(self._fetch, offset)

    def take(self, offset: int) -> Answer:
        """Fetches now if nothing was begun at this offset."""
        begun, self._begun = self._begun, None
        if begun is None or begun.offset != offset:
            return self._fetch(offset)
        return begun.answer()


class _Begun(Generic[Answer]):
    def __init__(self, fetch: Callable[[int], Answer], offset: int) -> None:
        self.offset = offset
        self._fetch = fetch
        self._answers: list[Answer] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"fetch ahead at {offset}", daemon=True)
        self._thread.start()

    def answer(self) -> Answer:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._answers.pop()

    def _run(self) -> None:
        try:
            self._answers.append(self._fetch(self.offset))
        except BaseException as error:
            self._error = error
