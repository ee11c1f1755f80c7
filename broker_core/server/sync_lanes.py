"""Threads that sync files without holding the GIL, see `native_syncs`. They receive orders through a pipe, and send the
results to the loop through another one.

    lanes = SyncLanes(loop, on_synced)         if `is_built`; raises OSError or RuntimeError if there are no
                                               descriptors or threads left
    lanes.order([(number, descriptor), …])     returns those that had no room; `on_synced` gets the results of the rest
    lanes.stop_hearing(); lanes.close()
"""

from __future__ import annotations

import asyncio
import os
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Final

try:
    from broker_core.server.native_syncs import serve
except ImportError:
    serve = None

LANE_COUNT: Final = 4
"""Concurrent syncs: as many as one disk does in parallel without slowing each of them down."""

_PAIR: Final = struct.Struct("=ii")
_PAIRS_AT_ONCE: Final = 512
"""4096 bytes, which a pipe writes completely or not at all."""
_END: Final = _PAIR.pack(0, -1)

Pair = tuple[int, int]


class SyncLanes:
    """Used on the loop. A descriptor must stay open from its order until its result."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_synced: Callable[[Sequence[Pair]], None]) -> None:
        """`on_synced` is called with all results since its last call: pairs of number and errno, 0 for success."""
        assert serve is not None, "the native module is missing"
        self._loop = loop
        self._on_synced = on_synced
        self._descriptors: list[int] = []
        self._threads: list[threading.Thread] = []
        try:
            orders, self._orders = self._new_pipe()
            self._answers, answers = self._new_pipe()
            # The loop must not block; the lanes must.
            os.set_blocking(self._orders, False)
            os.set_blocking(self._answers, False)
            for _ in range(LANE_COUNT):
                lane = threading.Thread(target=serve, args=(orders, answers), name="streamlog-sync-lane", daemon=True)
                lane.start()
                self._threads.append(lane)
        except (OSError, RuntimeError):
            self.close()
            raise
        loop.add_reader(self._answers, self._hear)

    @classmethod
    def is_built(cls) -> bool:
        return serve is not None

    def order(self, pairs: Sequence[Pair]) -> Sequence[Pair]:
        """`pairs` are of number and descriptor. Returns those that were not ordered because the pipe is full."""
        for start in range(0, len(pairs), _PAIRS_AT_ONCE):
            piece = pairs[start : start + _PAIRS_AT_ONCE]
            try:
                os.write(self._orders, b"".join([_PAIR.pack(*pair) for pair in piece]))
            except BlockingIOError:
                return pairs[start:]
        return ()

    def stop_hearing(self) -> None:
        """Call it on the loop, before `close`."""
        self._loop.remove_reader(self._answers)

    def close(self) -> None:
        """Waits for the ordered syncs; their results are dropped. Blocks."""
        if self._threads:
            os.set_blocking(self._orders, True)
            os.write(self._orders, _END * len(self._threads))
        for thread in self._threads:
            thread.join()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        self._threads.clear()

    def _new_pipe(self) -> Pair:
        ends = os.pipe()
        self._descriptors += ends
        return ends

    def _hear(self) -> None:
        try:
            data = os.read(self._answers, _PAIRS_AT_ONCE * _PAIR.size)
        except BlockingIOError:
            return
        self._on_synced(list(_PAIR.iter_unpack(data)))
