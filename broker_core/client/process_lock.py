"""A lock of one process."""

from __future__ import annotations

import os
import threading
from types import TracebackType


class ProcessLock:
    """Like `threading.Lock` in a `with`; it is free in a forked child even if a thread of the parent held it."""

    def __init__(self) -> None:
        self._process_id = os.getpid()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if self._process_id != os.getpid():
            self._lock = threading.Lock()
            self._process_id = os.getpid()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
