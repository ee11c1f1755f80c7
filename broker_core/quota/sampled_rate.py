"""A rate over a moving window, as Kafka measures it: the sum of samples over the time that they span.

    ├─ sample ─┼─ sample ─┼─ … ─┼─ sample ─►      sample_count of them, each of sample_ms

A sample ends with the first record after its time. It is kept while its last record lies in the window, even if it
began before. The span is never shorter than all but one of the samples, so a client that begins to send is not
throttled for its first burst.

A rate above its bound is back at it after a rest of (rate - bound) / bound times the span: that is the throttle time.
"""

from __future__ import annotations

from dataclasses import dataclass

_SECOND_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaWindow:
    """`quota.window.num` and `quota.window.size.seconds`, and the same of the controller."""

    sample_count: int = 11
    sample_ms: int = 1000

    @property
    def full_span_ms(self) -> int:
        """The span of a rate that has no old records."""
        return (self.sample_count - 1) * self.sample_ms


@dataclass(slots=True)
class _RateSample:
    start_ms: int
    last_ms: int
    value: float = 0.0

    def restart(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class SampledRate:
    """Of one client. Times must not go back."""

    def __init__(self, window: QuotaWindow) -> None:
        self._window = window
        self._samples: list[_RateSample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """A negative value takes a record back."""
        if not self._samples:
            self._samples.append(_RateSample(now_ms, now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._window.sample_ms:
            sample = self._next_sample(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def _next_sample(self, now_ms: int) -> _RateSample:
        # One more than the window has: the oldest one may overlap its beginning.
        self._current = (self._current + 1) % (self._window.sample_count + 1)
        if self._current == len(self._samples):
            self._samples.append(_RateSample(now_ms, now_ms))
        else:
            self._samples[self._current].restart(now_ms)
        return self._samples[self._current]

    def total(self, now_ms: int) -> float:
        """Everything in the window."""
        self._forget_old(now_ms)
        return sum(sample.value for sample in self._samples)

    def per_second(self, now_ms: int) -> float:
        return self.total(now_ms) / self._span_ms(now_ms) * _SECOND_MS

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long the client has to rest; 0: the rate is within `bound`, which is a second's."""
        rate = self.per_second(now_ms)
        if rate <= bound:
            return 0
        return int((rate - bound) / bound * self._span_ms(now_ms) + 0.5)

    def _span_ms(self, now_ms: int) -> int:
        """Call `_forget_old` first."""
        window = self._window
        oldest_ms = min((sample.start_ms for sample in self._samples), default=now_ms)
        span_ms = now_ms - oldest_ms
        missing = window.sample_count - 1 - span_ms // window.sample_ms
        if missing > 0:
            span_ms += missing * window.sample_ms
        return max(span_ms, 1)

    def _forget_old(self, now_ms: int) -> None:
        longest_ms = self._window.sample_count * self._window.sample_ms
        for sample in self._samples:
            if now_ms - sample.last_ms >= longest_ms:
                sample.restart(now_ms)
