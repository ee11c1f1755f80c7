"""The deadline of a call, and the backoff between its tries."""

from __future__ import annotations

import random
import time


class Deadline:
    """The end of a call. `setting` names the setting that extends it, for messages."""

    def __init__(self, timeout_ms: int, *, setting: str) -> None:
        self.timeout_ms = timeout_ms
        self.setting = setting
        self._end = time.monotonic() + timeout_ms / 1000

    @property
    def remaining_seconds(self) -> float:
        return max(0.0, self._end - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    def pause(self, seconds: float) -> bool:
        """Sleeps, at most until the deadline. Returns False if that is reached."""
        time.sleep(min(seconds, self.remaining_seconds))
        return not self.is_over


class Backoff:
    """Growing pauses, each with a jitter of 20 %, so that many clients do not retry at the same instant."""

    def __init__(self, *, first_ms: int, longest_ms: int) -> None:
        self._next_ms = float(min(first_ms, longest_ms))
        self._longest_ms = longest_ms

    def next_seconds(self) -> float:
        pause_ms = self._next_ms
        self._next_ms = min(self._next_ms * 2, self._longest_ms)
        return pause_ms * random.uniform(0.8, 1.2) / 1000
