"""One timer of the loop for everything that a node has scheduled.

    timer.look()        after anything that may have changed the node's next time: a request, a finished job

The node's times are of the wall clock, the loop's are not: the timer fires at least once a second, to notice when the
clock is set.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from broker_core.ports import Clock

_LONGEST_WAIT_SECONDS: Final = 1.0
_log: Final = logging.getLogger(__name__)


class TimedNode(Protocol):
    def next_timer_ms(self) -> int | None: ...

    def on_time(self, now_ms: int) -> None: ...


class NodeTimer:
    """Runs `node.on_time` when it is due, until `stop` is called."""

    def __init__(self, loop: asyncio.AbstractEventLoop, node: TimedNode, clock: Clock) -> None:
        self._loop = loop
        self._node = node
        self._clock = clock
        self._handle: asyncio.TimerHandle | None = None
        self._set_for_ms = 0
        """The node's time for which the handle was set."""
        self._is_stopped = False

    def look(self) -> None:
        """Sets the timer earlier if needed."""
        next_ms = self._node.next_timer_ms()
        if next_ms is None or self._is_stopped:
            return
        if self._handle is not None and next_ms >= self._set_for_ms:
            # Whatever the clock shows now: the timer fires in time for the earlier one, and within a second.
            return
        wait_seconds = min(max(0.0, (next_ms - self._clock.now_ms()) / 1000), _LONGEST_WAIT_SECONDS)
        at = self._loop.time() + wait_seconds
        if self._handle is not None:
            if self._handle.when() <= at:
                return
            self._handle.cancel()
        self._handle = self._loop.call_at(at, self._fire)
        self._set_for_ms = next_ms

    def stop(self) -> None:
        self._is_stopped = True
        if self._handle is not None:
            self._handle.cancel()

    def _fire(self) -> None:
        self._handle = None
        try:
            self._node.on_time(self._clock.now_ms())
        except Exception:
            _log.exception("a timer callback failed")
        self.look()
