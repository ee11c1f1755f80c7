"""A client beyond its quota: nothing is read from its connection for the throttle time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class ReadTransport(Protocol):
    """What a connection uses of `asyncio.Transport` for itself."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def is_closing(self) -> bool: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class ClientMute:
    """Of one connection; calls `on_end` when it is over."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_end: Callable[[], None]) -> None:
        self._loop = loop
        self._on_end = on_end
        self._timer: asyncio.TimerHandle | None = None
        self.is_on = False

    def begin(self, throttle_ms: int) -> None:
        """One that is on lasts as long as it would have, at least."""
        until = self._loop.time() + throttle_ms / 1000
        if self._timer is not None:
            until = max(until, self._timer.when())
            self._timer.cancel()
        self._timer = self._loop.call_at(until, self._end)
        self.is_on = True

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        self._timer = None
        self.is_on = False
        self._on_end()
