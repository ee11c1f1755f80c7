"""Sends the next fetches while the last one is decoded: for logs that are read over a network.

    ahead = FetchAhead(fetch)
    ahead.begin([3, 7])          returns at once; `fetch(3)` and `fetch(7)` run in threads
    ahead.take(3)                waits, then returns the answer or raises the fetch's error

The caller bounds how much is ahead by what it begins. A fetch that is never taken ends by itself and is discarded; its
thread blocks nothing, not even the exit of the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class FetchAhead(Generic[Answer]):
    """Used by one thread. `fetch` is called in other ones, so it must be thread-safe."""

    def __init__(self, fetch: Callable[[int], Answer]) -> None:
        self._fetch = fetch
        self._begun: dict[int, BackgroundCall[Answer]] = {}

    def begin(self, offsets: Sequence[int]) -> None:
        """Those that were begun before go on; what was begun at other offsets is dropped."""
        begun = self._begun
        self._begun = {one: begun.get(one) or BackgroundCall(partial(self._fetch, one)) for one in offsets}

    def take(self, offset: int) -> Answer:
        """Fetches now if nothing was begun at this offset."""
        begun = self._begun.pop(offset, None)
        return self._fetch(offset) if begun is None else begun.answer()


class BackgroundCall(Generic[Answer]):
    """Runs in a thread from now on."""

    def __init__(self, call: Callable[[], Answer]) -> None:
        self._call = call
        self._answers: list[Answer] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="fetch ahead", daemon=True)
        self._thread.start()

    def answer(self) -> Answer:
        """Waits; once."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._answers.pop()

    def _run(self) -> None:
        try:
            self._answers.append(self._call())
        except BaseException as error:
            self._error = error
