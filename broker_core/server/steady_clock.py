"""The broker's clock: the wall clock, except that it never goes back.

    the wall clock goes on, or is set forward     this clock is the wall clock
    it is set back                                this clock runs at half speed until the wall clock has caught up

All timeouts of a node (fetches, sessions, requests and transactions) use this clock. With a clock that is set back by
an hour they would all last an hour longer: clients with open fetches would time out, dead members would stay. At half
speed they last twice as long for a while, which does no harm.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

_WORTH_A_LINE_MS: Final = 1_000
_log: Final = logging.getLogger(__name__)


def _wall_ms() -> float:
    return time.time_ns() / 1_000_000


def _monotonic_ms() -> float:
    return time.monotonic_ns() / 1_000_000


class SteadyClock:
    """`broker_core.ports.Clock`. Thread-safe."""

    def __init__(
        self, *, wall_ms: Callable[[], float] = _wall_ms, monotonic_ms: Callable[[], float] = _monotonic_ms
    ) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._lock = threading.Lock()
        self._last_ms = wall_ms()
        self._last_monotonic_ms = monotonic_ms()
        self._is_ahead = False

    def now_ms(self) -> int:
        with self._lock:
            wall_ms, monotonic_ms = self._wall_ms(), self._monotonic_ms()
            slowest_ms = self._last_ms + (monotonic_ms - self._last_monotonic_ms) / 2
            ahead_ms = slowest_ms - wall_ms
            if ahead_ms > _WORTH_A_LINE_MS and not self._is_ahead:
                _log.warning(
                    "the clock was set back by %d ms: timestamps advance at half speed until it catches up", ahead_ms
                )
            self._is_ahead = ahead_ms > 0
            self._last_ms, self._last_monotonic_ms = max(wall_ms, slowest_ms), monotonic_ms
            return int(self._last_ms)
