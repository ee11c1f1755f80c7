"""Decides which writer of a shared log maintains it: the writer of certain commit numbers.

Each commit number belongs to one process, so one of the writers does maintenance from time to time, after its own
commit and in its own thread. If it dies, another writer gets the next turn.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from broker_core.log_directory.fork_guard import watch_for_fork

COMMITS_BETWEEN_TURNS: Final = 50

logger: Final = logging.getLogger(__name__)


class MaintenanceTurn:
    """Runs `work()` in a thread. Errors are logged and fail no caller."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._begin()
        watch_for_fork(self)

    def _begin(self) -> None:
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_asked = False
        self._is_stopped = False

    def on_committed(self, number: int) -> None:
        """Returns at once. A turn that comes during the previous one runs after it."""
        if number % COMMITS_BETWEEN_TURNS:
            return
        with self._mutex:
            if self._is_stopped:
                return
            self._is_asked = True
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._run, name="streamlog-object-maintenance", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Waits for the running turn and starts no more."""
        with self._mutex:
            self._is_stopped = True
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def reset_after_fork(self) -> None:
        self._begin()

    def _run(self) -> None:
        while True:
            with self._mutex:
                if not self._is_asked:
                    self._thread = None
                    return
                self._is_asked = False
            try:
                self._work()
            except Exception as error:
                logger.warning("maintenance of the log failed: %s", error)
