"""How many connections there may be: of a node, of a listener, of one address.

Where a node or a listener is full, nobody is accepted until somebody goes, as in Kafka; one address too many is turned
away.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """`by_address` stands before `per_address`."""

    total: int
    per_address: int
    by_address: Mapping[str, int] = field(default_factory=dict)


class ConnectionQuota:
    """Counts of one node. `limit_of_listener` None: as many as the node may have."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._has_changed = asyncio.Event()

    @property
    def count(self) -> int:
        return self._by_listener.total()

    def set_limits(self, limits: ConnectionLimits) -> None:
        """They count for connections that come from now on; who waits for room looks again."""
        self._limits = limits
        self._has_changed.set()

    async def wait_for_room(self, listener: str, limit_of_listener: int | None) -> None:
        """Until one more connection of the listener would be within the limits."""
        while self.count >= self._limits.total or (
            limit_of_listener is not None and self._by_listener[listener] >= limit_of_listener
        ):
            self._has_changed.clear()
            await self._has_changed.wait()

    def admit(self, listener: str, address: str) -> bool:
        """Counts a new connection, unless its address has enough of them."""
        if self._by_address[address] >= self._limits.by_address.get(address, self._limits.per_address):
            return False
        self._by_address[address] += 1
        self._by_listener[listener] += 1
        return True

    def release(self, listener: str, address: str) -> None:
        self._by_listener[listener] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        self._has_changed.set()
