"""The purgatory: requests wait for a change of a partition.

    park(request, partitions)      `request.maybe_complete(partition)` is called at each change of its partitions
    wake(partition)                calls it for the partition's requests; those that return True are removed
    remove(request)                the request timed out, or its client disconnected

The runner keeps the deadlines: one timer for each parked request, which removes it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol


class ParkedRequest(Protocol):
    """A waiting request. Compared by identity."""

    def maybe_complete(self, partition: Hashable) -> bool:
        """The partition changed. Answers if it can; returns whether it did."""
        ...


class Purgatory:
    """Parked requests by partition."""

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
        """The partition changed. Requests that are parked during this call are not asked."""
        for request in tuple(self._waiting.get(partition, ())):
            if request in self._partitions and request.maybe_complete(partition):
                self.remove(request)
