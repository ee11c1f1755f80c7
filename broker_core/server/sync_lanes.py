"""Threads that sync files without the interpreter, see `native_syncs`: orders go to them by a pipe, and what came of
them comes back to the loop by another one.

    lanes = SyncLanes.open(loop, on_synced=…)      None where the native module was not built
    lanes.order(number, descriptor)                then `on_synced(number, errno or 0)`, on the loop
"""

from __future__ import annotations

import asyncio
import os
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Final

try:
    from broker_core.server.native_syncs import serve
except ImportError:
    serve = None

LANE_COUNT: Final = 4
"""Syncs at a time; more than one disk does side by side."""

_PAIR: Final = struct.Struct("=ii")
_READ_BYTES: Final = 512 * _PAIR.size


class SyncLanes:
    """Used on the loop. Until `close` a descriptor that was ordered must stay open."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_synced: Callable[[list[tuple[int, int]]], None]) -> None:
        """`on_synced` is told of all that came since it was told last: pairs of number and errno."""
        assert serve is not None, "the native module is not there"
        self._loop = loop
        self._on_synced = on_synced
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        # Whoever orders must not wait; the lanes must.
        os.set_blocking(self._orders, False)
        os.set_blocking(self._answers, False)
        self._of_lanes = (orders, answers)
        self._threads = [
            threading.Thread(target=serve, args=self._of_lanes, name="streamlog-sync", daemon=True)
            for _ in range(LANE_COUNT)
        ]
        for thread in self._threads:
            thread.start()
        loop.add_reader(self._answers, self._hear)

    @classmethod
    def is_built(cls) -> bool:
        return serve is not None

    def order(self, orders: Iterable[tuple[int, int]]) -> bool:
        """Pairs of number and descriptor. False, and nothing was ordered: more are under way than fit the pipe."""
        data = b"".join([_PAIR.pack(number, descriptor) for number, descriptor in orders])
        if len(data) > _READ_BYTES:
            return False
        try:
            # Of a pipe so little is written whole or not at all.
            os.write(self._orders, data)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Waits for syncs that were ordered; nothing is heard of them. Blocks."""
        os.close(self._orders)
        for thread in self._threads:
            thread.join()
        for descriptor in (*self._of_lanes, self._answers):
            os.close(descriptor)

    def stop_hearing(self) -> None:
        """On the loop, before `close`."""
        self._loop.remove_reader(self._answers)

    def _hear(self) -> None:
        try:
            data = os.read(self._answers, _READ_BYTES)
        except BlockingIOError:
            return
        self._on_synced(list(_PAIR.iter_unpack(data)))
