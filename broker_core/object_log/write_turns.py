"""How long a writer waits before its next commit, so that other writers get a turn.

Every commit number is a race with one winner. The winner knows the next number at once; the losers have to read the
winning commit first. So the winner would win again, and one of two busy writers would wait for seconds. So losers
retry at once, and the winner waits:

    others were seen     for the time they need, estimated from their number and the duration of a write
    no others were seen  after LISTEN_INTERVAL_COUNT consecutive commits, for the time that a losing writer needs to
                         read and write once; a writer that commits in this time is seen from then on
"""

from __future__ import annotations

from typing import Final

MAX_SEEN_COUNT: Final = 64
LISTEN_INTERVAL_COUNT: Final = 16
LISTEN_ROUNDS: Final = 2.5
_BACK_TO_BACK_ROUNDS: Final = 4


class WriteTurns:
    """The state of one writing process. Times in ms by a monotonic clock; `dice` are random numbers in [0, 1)."""

    def __init__(self) -> None:
        self._round_trip_ms = 0.0
        self._others = 0.0
        self._alone_count = 0
        self._last_number = 0
        self._last_ms = 0.0

    def on_round_trip(self, duration_ms: float) -> None:
        """Records the duration of a write."""
        self._round_trip_ms += (duration_ms - self._round_trip_ms) / (4 if self._round_trip_ms else 1)

    def on_committed(self, number: int, now_ms: float) -> None:
        """Records a commit of ours."""
        others = min(number - self._last_number - 1, MAX_SEEN_COUNT) if self._last_number else 0
        is_back_to_back = now_ms - self._last_ms < _BACK_TO_BACK_ROUNDS * self._round_trip_ms
        self._alone_count = self._alone_count + 1 if is_back_to_back and others == 0 else 0
        self._others += (others - self._others) / 4
        self._last_number, self._last_ms = number, now_ms

    def wait_before_next_ms(self, now_ms: float, dice: float) -> float:
        """The wait before a new commit. A retry of a lost commit does not wait."""
        if self._alone_count >= LISTEN_INTERVAL_COUNT:
            self._alone_count = 0
            return self._round_trip_ms * LISTEN_ROUNDS * (0.8 + 0.4 * dice)
        if self._others < 0.5:
            return 0.0
        turn_ms = self._round_trip_ms * self._others * (0.8 + 0.2 * dice)
        return max(0.0, turn_ms - (now_ms - self._last_ms))
