"""Timers of a node: callbacks by key, each at a time in ms. One coarse timer of the driver is enough for all.

    timers.set(("session", group, member), at_ms, callback)     the same key again: replaces the timer
    timers.next_ms()                                            when the driver should call `fire`
    timers.fire(now_ms)                                         runs due timers, by time, then in the order of `set`

A replaced timer leaves a stale entry in the heap; it is skipped when its time comes, and the heap is rebuilt when
most entries are stale.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from broker_core.broker.callback_errors import log_callback_errors

OnTime = Callable[[int], None]

_LEAST_HEAP_COUNT: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timer:
    at_ms: int
    number: int
    callback: OnTime


class TimerQueue:
    """Timers of one node. A callback may set and cancel timers, including its own; a timer set for now runs at the next
    `fire`. If a callback fails, the others still run."""

    def __init__(self) -> None:
        self._timers: dict[Hashable, _Timer] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, key: Hashable, at_ms: int, callback: OnTime) -> None:
        """Calls `callback(now_ms)` once, at `at_ms` or soon after; replaces the key's timer."""
        timer = _Timer(at_ms=at_ms, number=next(self._numbers), callback=callback)
        self._timers[key] = timer
        heapq.heappush(self._heap, (at_ms, timer.number, key))
        if len(self._heap) > _LEAST_HEAP_COUNT and len(self._heap) > 4 * len(self._timers):
            self._heap = [(each.at_ms, each.number, name) for name, each in self._timers.items()]
            heapq.heapify(self._heap)

    def cancel(self, key: Hashable) -> bool:
        """Returns whether the timer existed."""
        return self._timers.pop(key, None) is not None

    def next_ms(self) -> int | None:
        """The time of the next timer; None: no timer is set."""
        while self._heap:
            at_ms, number, key = self._heap[0]
            timer = self._timers.get(key)
            if timer is not None and timer.number == number:
                return at_ms
            heapq.heappop(self._heap)
        return None

    def fire(self, now_ms: int) -> int:
        """Runs due timers; returns their number."""
        due: list[OnTime] = []
        while (at_ms := self.next_ms()) is not None and at_ms <= now_ms:
            _, _, key = heapq.heappop(self._heap)
            due.append(self._timers.pop(key).callback)
        for callback in due:
            log_callback_errors("what was due at a time", callback, now_ms)
        return len(due)
