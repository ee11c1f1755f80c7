"""What is to happen later on a node: callbacks by key, each at a time in ms. One coarse timer of the driver serves all.

    timers.set(("session", group, member), at_ms, callback)     again with the same key: the time moves
    timers.next_ms()                                            when the driver should call `fire`
    timers.fire(now_ms)                                         runs what is due, in order of time, then of setting

A timer that is moved away leaves its entry in the heap; it is passed over when its time comes, and the heap is built
anew when such entries are the most of it.
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
    """Timers of one node. A callback may set and cancel timers, its own included; what it sets for now runs at the next
    `fire`. One that fails keeps no other from its time."""

    def __init__(self) -> None:
        self._timers: dict[Hashable, _Timer] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, key: Hashable, at_ms: int, callback: OnTime) -> None:
        """Calls `callback(now_ms)` once, at `at_ms` or soon after; replaces what was set under the key."""
        timer = _Timer(at_ms=at_ms, number=next(self._numbers), callback=callback)
        self._timers[key] = timer
        heapq.heappush(self._heap, (at_ms, timer.number, key))
        if len(self._heap) > _LEAST_HEAP_COUNT and len(self._heap) > 4 * len(self._timers):
            self._heap = [(each.at_ms, each.number, name) for name, each in self._timers.items()]
            heapq.heapify(self._heap)

    def cancel(self, key: Hashable) -> bool:
        """Whether there was one."""
        return self._timers.pop(key, None) is not None

    def next_ms(self) -> int | None:
        """None: nothing is to happen."""
        while self._heap:
            at_ms, number, key = self._heap[0]
            timer = self._timers.get(key)
            if timer is not None and timer.number == number:
                return at_ms
            heapq.heappop(self._heap)
        return None

    def fire(self, now_ms: int) -> int:
        """Runs what is due; returns how many that were."""
        due: list[OnTime] = []
        while (at_ms := self.next_ms()) is not None and at_ms <= now_ms:
            _, _, key = heapq.heappop(self._heap)
            due.append(self._timers.pop(key).callback)
        for callback in due:
            log_callback_errors("what was due at a time", callback, now_ms)
        return len(due)
