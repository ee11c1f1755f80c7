"""The wall clock in milliseconds, the log's unit of time."""

from __future__ import annotations

import time


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def has_passed(duration_ms: int, since_ms: int, now_ms: int) -> bool:
    """True also for a clock that was set back, which must not delay anything."""
    return now_ms < since_ms or now_ms - since_ms >= duration_ms
