"""Jobs on threads: `work()` runs on one of a few threads, and its result is delivered to the loop.

Results that become ready while the loop is busy are delivered together: waking a loop costs a system call. After
`close` no results are delivered.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

Value = TypeVar("Value")

_log: Final = logging.getLogger(__name__)


class ThreadJobs:
    """`broker_core.ports.Jobs`. `after_each` is called on the loop after results were delivered."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        thread_count: int,
        thread_name: str = "streamlog-job",
        after_each: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._after_each = after_each
        self._thread_count = thread_count
        self._thread_name = thread_name
        self._threads = ThreadPoolExecutor(thread_count, thread_name_prefix=thread_name)
        self._retired: list[ThreadPoolExecutor] = []
        self._lock = threading.Lock()
        self._done: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._is_closed = False
        self.unfinished_count = 0
        """Submitted jobs whose results are not delivered yet."""

    def submit(
        self, work: Callable[[], Value], on_value: Callable[[Value], None], on_error: Callable[[Exception], None]
    ) -> None:
        if self._is_closed:
            return
        self.unfinished_count += 1
        self._threads.submit(self._work, work, on_value, on_error)

    def set_thread_count(self, thread_count: int) -> None:
        """For jobs that are submitted from now on; the others run on the threads that they were submitted to."""
        if thread_count == self._thread_count or self._is_closed:
            return
        self._threads.shutdown(wait=False)
        self._retired.append(self._threads)
        self._thread_count = thread_count
        self._threads = ThreadPoolExecutor(thread_count, thread_name_prefix=self._thread_name)

    def close(self) -> None:
        """Waits for running jobs; drops those that have not begun."""
        self._is_closed = True
        for threads in (*self._retired, self._threads):
            threads.shutdown(wait=True, cancel_futures=True)

    def _work(
        self, work: Callable[[], Value], on_value: Callable[[Value], None], on_error: Callable[[Exception], None]
    ) -> None:
        result: tuple[Callable[[Any], None], Any]
        try:
            result = (on_value, work())
        except Exception as error:
            result = (on_error, error)
        with self._lock:
            is_first = not self._done
            self._done.append(result)
            if is_first and not self._is_closed:
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            done, self._done = self._done, deque()
        for callback, argument in done:
            self.unfinished_count -= 1
            try:
                callback(argument)
            except Exception:
                # An error in one job's callback must not keep the others from their results.
                _log.exception("the callback of a job failed")
        self._after_each()
