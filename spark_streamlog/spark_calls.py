"""Counts the calls from Spark that are running in this process, and releases open logs when it has been idle.

Spark keeps its Python workers for a minute after their last task. A log that stays open in them keeps its directory's
lock, and no broker can start. So a thread releases open logs when the process is idle:

    call     begins: takes the mutex, counts up ─► works ─► ends: counts down
    watcher  sleeps ─► takes the mutex ─► nothing runs, and nothing did for IDLE_SECONDS: releases ─► ends

A call that begins while the watcher releases waits for it, and reopens what it needs. The process that plans a
stream is never idle as long as the query runs.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

logger = logging.getLogger("spark_streamlog")

IDLE_SECONDS: Final = 3.0


class SparkCalls:
    """The calls of one process. `release` is called when it is idle, and returns whether all logs were released."""

    def __init__(self, *, idle_seconds: float = IDLE_SECONDS, now: Callable[[], float] = time.monotonic) -> None:
        self._idle_seconds = idle_seconds
        self._now = now
        self._actions: list[Callable[[], bool]] = []
        self.reset_after_fork()

    def reset_after_fork(self) -> None:
        self._mutex = threading.Lock()
        self._running_count = 0
        self._idle_since = 0.0
        self._watcher: threading.Thread | None = None

    def on_idle(self, release: Callable[[], bool]) -> None:
        self._actions.append(release)

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._mutex:
            self._running_count += 1
        try:
            yield
        finally:
            with self._mutex:
                self._running_count -= 1
                if not self._running_count:
                    self._idle_since = self._now()
                    self._watch()

    def keep_busy(self) -> None:
        """For the life of the process."""
        with self._mutex:
            self._running_count += 1

    def release_if_idle(self) -> float | None:
        """Seconds until the next check; None if there is nothing to wait for."""
        with self._mutex:
            left_seconds = self._idle_since + self._idle_seconds - self._now()
            if self._running_count or left_seconds > 0:
                return self._idle_seconds if self._running_count else left_seconds
            try:
                busy = [release for release in self._actions if not release()]
                if busy:
                    return self._idle_seconds
            except Exception as error:
                logger.warning("An idle Python worker could not close its open logs: %s", error)
            self._watcher = None
            return None

    def _watch(self) -> None:
        if self._watcher is None and is_spark_worker():
            self._watcher = threading.Thread(target=self._run, name="streamlog-idle", daemon=True)
            self._watcher.start()

    def _run(self) -> None:
        while (seconds := self.release_if_idle()) is not None:
            time.sleep(seconds)


def is_spark_worker() -> bool:
    """A process that Spark may keep after its work is done. A user's own program needs no release."""
    return "SPARK_REUSE_WORKER" in os.environ or any(name.startswith("PYTHON_WORKER_FACTORY_") for name in os.environ)


SPARK_CALLS: Final = SparkCalls()
os.register_at_fork(after_in_child=SPARK_CALLS.reset_after_fork)
