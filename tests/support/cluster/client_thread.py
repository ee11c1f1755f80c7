"""A client that works in a thread of its own, until the `with` ends."""

from __future__ import annotations

import threading


class ClientThread:
    """A context manager around `_work`, which looks whether it `_may_end`. What it raised is raised at the end, unless
    the test has failed already."""

    def __init__(self):
        self.error = None
        self._may_end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        self._may_end.set()
        self._thread.join()
        if kind is None and self.error is not None:
            raise self.error

    def _run(self):
        try:
            self._work()
        except Exception as error:
            self.error = error
