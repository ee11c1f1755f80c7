"""The thread that does maintenance after a segment was begun: the append that began it does not wait for it.

What goes wrong is written to the log and fails nobody. A process that ends in the middle leaves what a crash would: the
next writer finishes it. The thread ends when there is nothing to do.
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
    """Does `work(partition)` for every partition that was asked for, one after the other, each once however often it
    was asked for while it waited."""

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
        """Waits until what was asked for is done; nothing is accepted any more."""
        with self._mutex:
            self._is_stopped = True
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def reset_after_fork(self) -> None:
        """The parent's thread does not exist in the child, and what it was to do is the parent's business."""
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
