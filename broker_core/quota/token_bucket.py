"""A bucket of tokens: `controller_mutation_rate` (KIP-599). It gets a second's bound each second, until it is full.

A request may take more tokens than there are: the bucket is in debt then, and the client is throttled until that is
paid. So a client may do much at once, and then has to rest.
"""

from __future__ import annotations

from broker_core.quota.sampled_rate import QuotaWindow

_SECOND_MS = 1000


class TokenBucket:
    """Of one client; full at the beginning. `bound` may be another one in each call. Times must not go back."""

    def __init__(self, window: QuotaWindow) -> None:
        self._most_seconds = window.sample_count * window.sample_ms / _SECOND_MS
        self._tokens: float | None = None
        self._filled_ms = 0

    def tokens(self, bound: float, now_ms: int) -> float:
        most = self._most_seconds * bound
        if self._tokens is None:
            self._tokens = most
        else:
            self._tokens = min(most, self._tokens + (now_ms - self._filled_ms) / _SECOND_MS * bound)
        self._filled_ms = now_ms
        return self._tokens

    def take(self, count: float, bound: float, now_ms: int) -> None:
        """There may be fewer."""
        self._tokens = self.tokens(bound, now_ms) - count

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long until the debt is paid; 0: there is none."""
        tokens = self.tokens(bound, now_ms)
        return int(-tokens / bound * _SECOND_MS + 0.5) if tokens < 0 else 0
