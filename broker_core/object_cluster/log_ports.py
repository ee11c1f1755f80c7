"""The services that an object log needs from its environment, so that a simulation can replace them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from broker_core.log_directory.system_ports import SystemClock, SystemEntropy
from broker_core.ports import Clock, Entropy, ObjectStore

Value = TypeVar("Value")
First = TypeVar("First")
Second = TypeVar("Second")

MAX_REQUESTS_AT_ONCE: Final = 32


class Requests:
    """Runs independent requests in parallel threads. Returns the answers in the order of the calls."""

    def gather(self, calls: Sequence[Callable[[], Value]]) -> list[Value]:
        if len(calls) < 2:
            return [call() for call in calls]
        with ThreadPoolExecutor(max_workers=min(len(calls), MAX_REQUESTS_AT_ONCE)) as pool:
            return list(pool.map(lambda call: call(), calls))

    def both(self, first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
        return cast(tuple[First, Second], tuple(self.gather(cast(list[Callable[[], Any]], [first, second]))))


def sleep_ms(duration_ms: float) -> None:
    time.sleep(duration_ms / 1000)


def steady_ms() -> float:
    return time.monotonic() * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPorts:
    """`clock` is a wall clock, `steady_ms` a monotonic clock; `sleep_ms` waits."""

    store: ObjectStore
    clock: Clock = field(default_factory=SystemClock)
    entropy: Entropy = field(default_factory=SystemEntropy)
    sleep_ms: Callable[[float], None] = sleep_ms
    steady_ms: Callable[[], float] = steady_ms
    requests: Requests = field(default_factory=Requests)

    def wait_ms(self, duration_ms: float) -> None:
        """Not at all for 0."""
        if duration_ms > 0:
            self.sleep_ms(duration_ms)

    def dice(self) -> float:
        """In [0, 1)."""
        return int.from_bytes(self.entropy.random_bytes(4), "big") / 2**32
