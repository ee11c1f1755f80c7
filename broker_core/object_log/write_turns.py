"""How long a writer waits before its next commit, so that others get their turn.

Every commit number is a race with one winner. The winner knows the next number at once; the others have to read the
commit that beat them first, so whoever has won wins again, and of two writers that commit all the time one waits for
seconds. So losers try again at once, and who has won stands back:

    others were seen     for as long as they need, by their number and the time that a write takes nobody was seen
    after LISTEN_INTERVAL_COUNT commits one right behind the other: for as long as somebody who loses all
                         the time needs to read and write once; who is heard then is seen from then on
"""

from __future__ import annotations

from typing import Final

MAX_SEEN_COUNT: Final = 64
LISTEN_INTERVAL_COUNT: Final = 16
LISTEN_ROUNDS: Final = 2.5
_BACK_TO_BACK_ROUNDS: Final = 4


class WriteTurns:
    """Of one writing process. Times in ms by a steady clock; `dice` are in [0, 1)."""

    def __init__(self) -> None:
        self._round_trip_ms = 0.0
        self._others = 0.0
        self._alone_count = 0
        self._last_number = 0
        self._last_ms = 0.0

    def on_round_trip(self, duration_ms: float) -> None:
        """How long a write took."""
        self._round_trip_ms += (duration_ms - self._round_trip_ms) / (4 if self._round_trip_ms else 1)

    def on_committed(self, number: int, now_ms: float) -> None:
        """A commit of ours was made."""
        others = min(number - self._last_number - 1, MAX_SEEN_COUNT) if self._last_number else 0
        is_back_to_back = now_ms - self._last_ms < _BACK_TO_BACK_ROUNDS * self._round_trip_ms
        self._alone_count = self._alone_count + 1 if is_back_to_back and others == 0 else 0
        self._others += (others - self._others) / 4
        self._last_number, self._last_ms = number, now_ms

    def wait_before_next_ms(self, now_ms: float, dice: float) -> float:
        """Before a new commit, not before another attempt at one that has lost."""
        if self._alone_count >= LISTEN_INTERVAL_COUNT:
            self._alone_count = 0
            return self._round_trip_ms * LISTEN_ROUNDS * (0.8 + 0.4 * dice)
        if self._others < 0.5:
            return 0.0
        turn_ms = self._round_trip_ms * self._others * (0.8 + 0.2 * dice)
        return max(0.0, turn_ms - (now_ms - self._last_ms))
