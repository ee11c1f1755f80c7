"""The wall clock in milliseconds, the log's unit of time."""

from __future__ import annotations

import time


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
