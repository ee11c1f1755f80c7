"""The thread that runs maintenance after a new segment was started. The append that started it does not wait.

Errors are logged and fail no call. If the process ends during maintenance, the directory is as after a crash: the next
writer finishes the work. The thread ends when there is nothing to do.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from broker_core.log_directory.fork_guard import watch_for_fork
from broker_core.model.identifiers import TopicPartition

_log: Final = logging.getLogger(__name__)


class MaintenanceThread:
    """Runs `work(partition)` for every requested partition, one after the other. Requests for a partition that is
    already waiting are merged."""

    def __init__(self, work: Callable[[TopicPartition], object]) -> None:
        self._work = work
        self._begin()
        watch_for_fork(self)

    def _begin(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: dict[TopicPartition, None] = {}
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    def ask_for(self, partition: TopicPartition) -> None:
        """Returns at once."""
        with self._mutex:
            if self._is_stopped:
                return
            self._waiting[partition] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="streamlog-maintenance", daemon=True)
                self._thread.start()

    @property
    def is_busy(self) -> bool:
        with self._mutex:
            return self._thread is not None

    def stop(self) -> None:
        """Waits until the requested work is done. Later requests are ignored."""
        with self._mutex:
            self._is_stopped = True
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def reset_after_fork(self) -> None:
        """The parent's thread does not exist in the child, and the parent does its pending work."""
        self._begin()

    def _run(self) -> None:
        while True:
            with self._mutex:
                if not self._waiting:
                    self._thread = None
                    return
                partition = next(iter(self._waiting))
                del self._waiting[partition]
            try:
                self._work(partition)
            except Exception as error:
                _log.warning("maintenance of %s failed: %s", partition, error)
