"""When a follower that met a full disk tries its disk again: after a second, then twice as long, up to a minute.

Only a full disk. After another error of a write it is not known what is on the device, and a sync that succeeds later
says nothing of what was written before.
"""

from __future__ import annotations

from typing import Final

from broker_core.model.exceptions import DiskFullError, StreamlogError

_FIRST_MS: Final = 1_000
_LONGEST_MS: Final = 60_000


class Reopening:
    """`high_watermark`: what the replica knew to be committed."""

    def __init__(self) -> None:
        self._delay_ms = 0
        self._at_ms: int | None = None
        self.high_watermark = 0

    def maybe_plan(self, error: StreamlogError, now_ms: int) -> bool:
        """Whether the replica will try again after this error."""
        if not isinstance(error, DiskFullError):
            return False
        self._delay_ms = min(max(2 * self._delay_ms, _FIRST_MS), _LONGEST_MS)
        self._at_ms = now_ms + self._delay_ms
        return True

    def maybe_take(self, now_ms: int) -> bool:
        """Whether it is time; once for each plan."""
        if self._at_ms is None or now_ms < self._at_ms:
            return False
        self._at_ms = None
        return True

    def on_written(self) -> None:
        """There is space."""
        self._delay_ms, self._at_ms = 0, None
