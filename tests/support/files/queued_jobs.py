"""Twins of `broker_core.ports.Jobs`: one that works when it is told, so that every interleaving can be played; and one
with real threads under a loop of its own, for measuring and for races."""

from __future__ import annotations

import queue
import threading
from collections import deque


class QueuedJobs:
    """`submit` only notes the job. `run_next` does the work of the oldest one and comes back; `do_next` and `finish`
    are its two halves, for what happens on the loop in between. `count` is how many were submitted."""

    def __init__(self):
        self._waiting = deque()
        self._working = deque()
        self.count = 0

    def __len__(self):
        """Jobs that have not come back."""
        return len(self._waiting) + len(self._working)

    def submit(self, work, on_value, on_error):
        self.count += 1
        self._waiting.append((work, on_value, on_error))

    def do_next(self, slot=0):
        """The work of the oldest job, or of a later one; its answer is on its way."""
        work, on_value, on_error = self._waiting[slot]
        del self._waiting[slot]
        try:
            value = work()
        except Exception as error:
            self._working.append((on_error, error))
        else:
            self._working.append((on_value, value))

    def finish(self, slot=0):
        """The answer of the oldest job whose work is done, or of a later one, arrives on the loop."""
        callback, argument = self._working[slot]
        del self._working[slot]
        callback(argument)

    def run_next(self, slot=0):
        self.do_next(slot)
        self.finish(len(self._working) - 1)

    def run_one(self):
        """Brings the next one to its end that there is, if there is one."""
        if self._working:
            self.finish()
        elif self._waiting:
            self.run_next()

    def run_all(self):
        """Until none is left, those included that are submitted meanwhile; returns how many that were."""
        ran = 0
        while self._waiting:
            self.run_next()
            ran += 1
        while self._working:
            self.finish()
        return ran


class LoopedThreadJobs:
    """Work in threads; `run_until(condition)` is the loop."""

    def __init__(self, thread_count=4):
        self._work = queue.SimpleQueue()
        self._back = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(thread_count)]
        for thread in self._threads:
            thread.start()

    def submit(self, work, on_value, on_error):
        self._work.put((work, on_value, on_error))

    def run_until(self, condition, *, timeout_seconds=60):
        while not condition():
            callback, argument = self._back.get(timeout=timeout_seconds)
            callback(argument)

    def stop(self):
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self):
        while (job := self._work.get()) is not None:
            work, on_value, on_error = job
            try:
                value = work()
            except Exception as error:
                self._back.put((on_error, error))
            else:
                self._back.put((on_value, value))
