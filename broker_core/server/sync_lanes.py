"""Threads that sync files without the interpreter, see `native_syncs`: orders go to them by a pipe, and what came of
them comes back to the loop by another one.

    lanes = SyncLanes(loop, on_synced)         where `is_built`; raises OSError or RuntimeError where there are no
                                               descriptors or threads left
    lanes.order([(number, descriptor), …])     gives those that had no room; of the others `on_synced` hears
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
"""Syncs at a time: what one disk does side by side without each taking longer."""

_PAIR: Final = struct.Struct("=ii")
_PAIRS_AT_ONCE: Final = 512
"""4096 bytes, which a pipe takes whole or not at all."""
_END: Final = _PAIR.pack(0, -1)

Pair = tuple[int, int]


class SyncLanes:
    """Used on the loop. Until it was answered a descriptor that was ordered must stay open."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_synced: Callable[[Sequence[Pair]], None]) -> None:
        """`on_synced` is told of all that came since it was told last: pairs of number and errno, 0 for none."""
        assert serve is not None, "the native module is not there"
        self._loop = loop
        self._on_synced = on_synced
        self._descriptors: list[int] = []
        self._threads: list[threading.Thread] = []
        try:
            orders, self._orders = self._new_pipe()
            self._answers, answers = self._new_pipe()
            # Whoever orders must not wait; the lanes must.
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
        """Of number and descriptor. Gives those that were not ordered: more are under way than fit the pipe."""
        for start in range(0, len(pairs), _PAIRS_AT_ONCE):
            piece = pairs[start : start + _PAIRS_AT_ONCE]
            try:
                os.write(self._orders, b"".join([_PAIR.pack(*pair) for pair in piece]))
            except BlockingIOError:
                return pairs[start:]
        return ()

    def stop_hearing(self) -> None:
        """On the loop, before `close`."""
        self._loop.remove_reader(self._answers)

    def close(self) -> None:
        """Waits for syncs that were ordered; nothing is heard of them. Blocks."""
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
