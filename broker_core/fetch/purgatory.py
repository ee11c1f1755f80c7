"""Where requests wait for something to happen to a partition.

    park(request, partitions)      `request.maybe_complete(partition)` is asked each time one of its partitions moves
    wake(partition)                asks those that wait for it; those that say yes are gone
    remove(request)                its time is up, or its client is gone

Deadlines are the runner's: it keeps one timer for each parked request and removes it when the time has come.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol


class ParkedRequest(Protocol):
    """A request that waits. Compared by identity."""

    def maybe_complete(self, partition: Hashable) -> bool:
        """The partition has moved. Answers if there is enough to answer with; says whether it did."""
        ...


class Purgatory:
    """Parked requests by what they wait for."""

    def __init__(self) -> None:
        self._partitions: dict[ParkedRequest, tuple[Hashable, ...]] = {}
        self._waiting: dict[Hashable, dict[ParkedRequest, None]] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def park(self, request: ParkedRequest, partitions: Iterable[Hashable]) -> None:
        keys = tuple(dict.fromkeys(partitions))
        self._partitions[request] = keys
        for key in keys:
            self._waiting.setdefault(key, {})[request] = None

    def remove(self, request: ParkedRequest) -> bool:
        """Whether it was parked."""
        keys = self._partitions.pop(request, None)
        if keys is None:
            return False
        for key in keys:
            waiting = self._waiting[key]
            del waiting[request]
            if not waiting:
                del self._waiting[key]
        return True

    def wake(self, partition: Hashable) -> None:
        """Something happened to it. A request that is answered may park others meanwhile; they are not asked."""
        for request in tuple(self._waiting.get(partition, ())):
            if request in self._partitions and request.maybe_complete(partition):
                self.remove(request)
