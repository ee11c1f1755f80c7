"""Whose turn it is to maintain a log that many write: who made a commit whose number says so.

Each number is one process's, so of all that write one maintains, now and then, behind its own commit and in a thread
of its own. One that dies leaves the next turn to somebody else.
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
    """Does `work()` in a thread; errors are logged and fail nobody."""

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
        """Returns at once. A turn that comes while the one before is being used follows it."""
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
        """Waits for the turn that is being used; there are no more."""
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
