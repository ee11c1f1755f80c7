"""The syncs of one turn of the loop, on threads that do not hold the GIL, see `sync_lanes`.

    at_end_of_turn(callback)     `callback` writes; everything written in one turn is synced in one round
    sync(work, ...)              syncs one file; called from those callbacks, or at any other time

If the lanes are not built, or a file has no descriptor, Python's threads sync. A handover to a thread and back costs
about 0.1 ms of CPU time, a sync on a good disk hardly more. So one thread does a round of cheap syncs, and only syncs
that take longer than a handover get a thread each.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from broker_core.server.sync_lanes import Pair, SyncLanes
from broker_core.server.thread_jobs import ThreadJobs

CHEAP_SYNC_SECONDS: Final = 0.0005
_WEIGHT: Final = 0.1
"""The weight of the newest sync in the running mean."""
_MAX_NUMBER: Final = 2**31

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Sync:
    work: Callable[[], None]
    on_synced: Callable[[], None]
    on_error: Callable[[Exception], None]
    descriptor: int | None


class ThreadSyncs:
    """`broker_core.ports.LoopWrites`. `jobs` must be its own, so that syncs do not wait for other jobs."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        jobs: ThreadJobs,
        *,
        after_turn: Callable[[], None] = lambda: None,
        is_native: bool = True,
    ) -> None:
        """`after_turn` is called after all callbacks of a turn, because some appends are published without a sync, and
        after syncs have finished. `is_native` False: only Python's threads sync."""
        self._loop = loop
        self._jobs = jobs
        self._after_turn = after_turn
        self._callbacks: list[Callable[[], None]] = []
        self._round: list[_Sync] = []
        self._is_turn_noted = False
        self._mean_seconds = 0.0
        self._is_native = is_native and SyncLanes.is_built()
        self._lanes: SyncLanes | None = None
        self._last_number = 0
        self._is_stopped = False
        self._ordered: dict[int, _Sync] = {}

    @property
    def unfinished_count(self) -> int:
        """Begun syncs whose results are not delivered yet."""
        return self._jobs.unfinished_count + len(self._ordered)

    def stop(self) -> None:
        """Call it on the loop. No more syncs are started and no more results are delivered."""
        self._is_stopped = True
        if self._lanes is not None:
            self._lanes.stop_hearing()

    def close(self) -> None:
        """Call it after `stop`. Waits for running syncs. Blocks."""
        if self._lanes is not None:
            self._lanes.close()
        self._jobs.close()

    def at_end_of_turn(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)
        self._note_turn()

    def sync(
        self,
        work: Callable[[], None],
        on_synced: Callable[[], None],
        on_error: Callable[[Exception], None],
        *,
        descriptor: int | None = None,
    ) -> None:
        self._round.append(_Sync(work, on_synced, on_error, descriptor))
        self._note_turn()

    def _note_turn(self) -> None:
        if not self._is_turn_noted:
            self._is_turn_noted = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        if self._is_stopped:
            return
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                # An error in one partition must not keep the others from being written.
                _log.exception("writing at the end of a loop turn failed")
        self._is_turn_noted = False
        if self._callbacks:
            self._note_turn()
        syncs, self._round = self._round, []
        left = self._without_ordered(syncs) if self._is_native else syncs
        if self._mean_seconds < CHEAP_SYNC_SECONDS:
            self._start(left)
        else:
            for each in left:
                self._start([each])
        self._after_turn()

    def _without_ordered(self, syncs: list[_Sync]) -> list[_Sync]:
        """Orders the syncs that the lanes can do; returns the others."""
        lanes = self._lanes or self._maybe_open_lanes()
        if lanes is None:
            return syncs
        others: list[_Sync] = []
        orders: list[Pair] = []
        for each in syncs:
            if each.descriptor is None or each.descriptor < 0:
                others.append(each)
            else:
                self._last_number = (self._last_number + 1) % _MAX_NUMBER
                self._ordered[self._last_number] = each
                orders.append((self._last_number, each.descriptor))
        return others + [self._ordered.pop(number) for number, _ in lanes.order(orders)]

    def _maybe_open_lanes(self) -> SyncLanes | None:
        """Called at the first sync. Returns None if there are no descriptors or threads left; then Python's threads
        sync."""
        try:
            self._lanes = SyncLanes(self._loop, self._on_lanes)
        except (OSError, RuntimeError) as error:
            _log.warning("syncing with Python threads: %s", error)
            self._is_native = False
        return self._lanes

    def _on_lanes(self, answers: Sequence[Pair]) -> None:
        for number, error in answers:
            sync = self._ordered.pop(number)
            self._report(sync, OSError(error, os.strerror(error)) if error else None)
        self._after_turn()

    def _start(self, syncs: list[_Sync]) -> None:
        if syncs:
            self._jobs.submit(lambda: _carry_out(syncs), self._finish, _failed)

    def _finish(self, done: list[tuple[_Sync, Exception | None, float]]) -> None:
        for sync, error, seconds in done:
            self._mean_seconds += _WEIGHT * (seconds - self._mean_seconds)
            self._report(sync, error)

    @staticmethod
    def _report(sync: _Sync, error: Exception | None) -> None:
        try:
            if error is None:
                sync.on_synced()
            else:
                sync.on_error(error)
        except Exception:
            _log.exception("the callback of a sync failed")


def _carry_out(syncs: list[_Sync]) -> list[tuple[_Sync, Exception | None, float]]:
    """Runs in a thread. Returns each sync with its error and its duration."""
    done: list[tuple[_Sync, Exception | None, float]] = []
    for sync in syncs:
        begin = time.perf_counter()
        error: Exception | None = None
        try:
            sync.work()
        except Exception as refused:
            error = refused
        done.append((sync, error, time.perf_counter() - begin))
    return done


def _failed(error: Exception) -> None:
    raise AssertionError("errors of a sync are results") from error
