"""How many new commits a look at a log probably finds, so that it requests them all at once.

A look that requests one commit more than there are takes one turn. But each request for a commit that does not exist
costs money, and most looks find nothing. So a look requests only the next commit, unless the last two found some.
"""

from __future__ import annotations

from typing import Final

MAX_WINDOW: Final = 16
"""Commits that are requested at once, although they may not exist."""


class TailGuess:
    """Of one kind of look."""

    def __init__(self) -> None:
        self._last_counts = (0, 0)

    @property
    def window(self) -> int:
        """How many commits to request at once."""
        return min(*self._last_counts, MAX_WINDOW - 1) + 1

    def on_found(self, count: int) -> None:
        """So many new commits were found, or none."""
        self._last_counts = (self._last_counts[1], count)
