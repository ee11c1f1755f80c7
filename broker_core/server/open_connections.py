"""All connections of a node. Closes idle ones, and stalled ones when memory is short."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

from broker_core.model.limits import MAX_STALLED_MS_WHEN_FULL
from broker_core.ports import Clock
from broker_core.server.answer_memory import AnswerMemory
from broker_core.server.client_connection import ClientConnection

_SHORTEST_SWEEP_MS: Final = 10
_LONGEST_SWEEP_MS: Final = 1_000
_CLOSE_SECONDS: Final = 1.0
"""How long clients may take to fetch their last answers when the broker stops."""

_log: Final = logging.getLogger(__name__)


class OpenConnections:
    """`max_idle_ms` below 0: idle connections stay open, as in Kafka."""

    def __init__(self, clock: Clock, memory: AnswerMemory, *, max_idle_ms: int) -> None:
        self._clock = clock
        self._memory = memory
        self._max_idle_ms = max_idle_ms
        self._connections: set[ClientConnection] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[ClientConnection]:
        return iter(tuple(self._connections))

    def add(self, connection: ClientConnection) -> None:
        self._connections.add(connection)
        self._is_empty.clear()

    def remove(self, connection: ClientConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._is_empty.set()

    async def sweep_forever(self) -> None:
        """Runs until it is cancelled."""
        pause_ms = self._max_idle_ms // 4 if self._max_idle_ms >= 0 else _LONGEST_SWEEP_MS
        while True:
            await asyncio.sleep(max(_SHORTEST_SWEEP_MS, min(pause_ms, _LONGEST_SWEEP_MS)) / 1000)
            self.sweep()

    def sweep(self) -> None:
        """Closes connections that were idle for too long. A connection that waits for an answer is not idle."""
        now_ms = self._clock.now_ms()
        for connection in self:
            try:
                self._look_at(connection, now_ms)
            except Exception:
                # An error in one connection must not keep all the others open forever.
                _log.exception("peer=%s: the idle check failed, closing the connection", connection.peer)
                connection.abort()

    def _look_at(self, connection: ClientConnection, now_ms: int) -> None:
        connection.look_at_writing()
        silent_ms = now_ms - connection.last_activity_ms
        is_stalled = connection.held_bytes > 0
        if 0 <= self._max_idle_ms < silent_ms and (is_stalled or not connection.open_request_count):
            self._give_up(connection, f"idle for {silent_ms} ms (connections.max.idle.ms)")
        elif is_stalled and self._memory.is_full and silent_ms > MAX_STALLED_MS_WHEN_FULL:
            self._give_up(
                connection,
                f"{connection.held_bytes} bytes of responses not read for {silent_ms} ms, and memory is low",
            )

    async def close(self) -> None:
        """Sends the ready answers; aborts connections that do not take them in time."""
        for connection in self:
            connection.close()
        try:
            await asyncio.wait_for(self._is_empty.wait(), _CLOSE_SECONDS)
        except TimeoutError:
            await self.abort()

    async def abort(self) -> None:
        for connection in self:
            connection.abort()
        try:
            await asyncio.wait_for(self._is_empty.wait(), _CLOSE_SECONDS)
        except TimeoutError:
            _log.error("%d connections could not be closed before the broker stopped", len(self._connections))

    def _give_up(self, connection: ClientConnection, reason: str) -> None:
        _log.info("listener=%s peer=%s closed: %s", connection.peer.listener, connection.peer, reason)
        connection.abort()
