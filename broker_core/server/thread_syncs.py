"""Syncs of a turn of the loop, in threads that do not need the interpreter, see `sync_lanes`.

    at_end_of_turn(callback)     what writes; all that is written in one turn is synced in one round
    sync(work, ...)              one file; from those callbacks, or at any other time

Where those were not built, or a file has no descriptor, Python's threads sync. Handing work to one and back costs about
0.1 ms of processor time, a sync of a good disk hardly more. So a round of cheap syncs is one thread's, and only those
that take longer than the handing over get a thread each.
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
"""Of the newest sync in the running mean."""
_MAX_NUMBER: Final = 2**31

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Sync:
    work: Callable[[], None]
    on_synced: Callable[[], None]
    on_error: Callable[[Exception], None]
    descriptor: int | None


class ThreadSyncs:
    """`broker_core.ports.LoopWrites`. `jobs` are its own: nothing that waits for anything else runs there."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        jobs: ThreadJobs,
        *,
        after_turn: Callable[[], None] = lambda: None,
        is_native: bool = True,
    ) -> None:
        """`after_turn` is called once all of a turn was written, some of which is published then without any sync, and
        when syncs came back. `is_native` False: Python's threads do it all."""
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
        """Begun, and not come back yet."""
        return self._jobs.unfinished_count + len(self._ordered)

    def stop(self) -> None:
        """On the loop: nothing is begun and nothing comes back any more."""
        self._is_stopped = True
        if self._lanes is not None:
            self._lanes.stop_hearing()

    def close(self) -> None:
        """Behind `stop`. Waits for syncs that have begun. Blocks."""
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
                # One partition's mistake is not to keep the others from being written.
                _log.exception("what was to be written at the end of a turn met an error")
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
        """Orders what the lanes can sync; gives the others."""
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
        """At the first sync. None: there are no descriptors or threads for them, and Python's threads will do."""
        try:
            self._lanes = SyncLanes(self._loop, self._on_lanes)
        except (OSError, RuntimeError) as error:
            _log.warning("syncs are Python's threads': %s", error)
            self._is_native = False
        return self._lanes

    def _on_lanes(self, answers: Sequence[Pair]) -> None:
        for number, error in answers:
            sync = self._ordered.pop(number)
            self._tell(sync, OSError(error, os.strerror(error)) if error else None)
        self._after_turn()

    def _start(self, syncs: list[_Sync]) -> None:
        if syncs:
            self._jobs.submit(lambda: _carry_out(syncs), self._finish, _failed)

    def _finish(self, done: list[tuple[_Sync, Exception | None, float]]) -> None:
        for sync, error, seconds in done:
            self._mean_seconds += _WEIGHT * (seconds - self._mean_seconds)
            self._tell(sync, error)

    @staticmethod
    def _tell(sync: _Sync, error: Exception | None) -> None:
        try:
            if error is None:
                sync.on_synced()
            else:
                sync.on_error(error)
        except Exception:
            _log.exception("a sync came back to an error")


def _carry_out(syncs: list[_Sync]) -> list[tuple[_Sync, Exception | None, float]]:
    """In a thread: each with what went wrong and how long it took."""
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
    raise AssertionError("what goes wrong with a sync is an answer") from error
