"""Limits of the number of connections: of a node, of a listener, of one address.

If a node or a listener is full, no connection is accepted until one closes, as in Kafka. If an address is at its limit,
its new connections are closed at once. If it opens them faster than its quota allows, they are closed after the
throttle time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """`by_address` overrides `per_address`."""

    total: int
    per_address: int
    by_address: Mapping[str, int] = field(default_factory=dict)


class ConnectionQuota:
    """The connection counts of one node. `limit_of_listener` gives None for a listener without a limit of its own.
    `throttle_ms_of`: for how long a new connection of an address is kept before it is closed; 0: it may stay."""

    def __init__(self, limits: ConnectionLimits, *, throttle_ms_of: Callable[[str], int] = lambda address: 0) -> None:
        self._limits = limits
        self.throttle_ms_of = throttle_ms_of
        self.delayed_close_count = 0
        self._by_address: Counter[str] = Counter()
        self._by_listener: Counter[str] = Counter()
        self._has_changed = asyncio.Event()

    @property
    def count(self) -> int:
        return self._by_listener.total()

    def set_limits(self, limits: ConnectionLimits) -> None:
        """The limits apply to new connections from now on; listeners that wait for room check again."""
        self._limits = limits
        self._has_changed.set()

    async def wait_for_room(self, listener: str, limit_of_listener: Callable[[], int | None]) -> None:
        """Returns when one more connection of the listener is within the limits. They may change meanwhile."""
        while self.count >= self._limits.total or (
            (limit := limit_of_listener()) is not None and self._by_listener[listener] >= limit
        ):
            self._has_changed.clear()
            await self._has_changed.wait()

    def admit(self, listener: str, address: str) -> bool:
        """Adds a new connection. Returns False if its address is at its limit."""
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
