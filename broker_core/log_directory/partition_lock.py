"""A lock file that excludes threads and processes alike: `.lock` in a partition's folder and in the root.

Threads of a process that share one PartitionLock first lock among themselves (many sharers, or one exclusive owner).
The first of them locks the file, the last one unlocks it. The lock is not reentrant.

The file is opened at the first use and stays open. A renamed folder keeps its lock file: a waiter gets the lock in the
end and must then check whether the partition is still the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from broker_core.log_directory.fork_guard import watch_for_fork
from broker_core.log_directory.system_ports import SYSTEM_LOCKS
from broker_core.ports import LockFile, LockMode, Locks

LOCK_FILE_NAME: Final = ".lock"

_POLL_SECONDS = 0.005


class PartitionLock:
    """The lock on the file at `path`. With `creates` a missing file is created; without it, FileNotFoundError.

    A read-only file can still be locked in shared mode.
    """

    def __init__(self, path: str, *, creates: bool = True, locks: Locks = SYSTEM_LOCKS) -> None:
        self.path = path
        self._locks = locks
        self._creates = creates
        self._begin()
        watch_for_fork(self)

    def _begin(self) -> None:
        self._file: LockFile | None = None
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)
        self._waiting_count = 0
        self._sharer_count = 0
        self._is_exclusive = False

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Waits until no other holder has the lock in any mode."""
        self.acquire(LockMode.EXCLUSIVE)
        try:
            yield
        finally:
            self.release()

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Waits until no holder has the lock exclusively."""
        self.acquire(LockMode.SHARED)
        try:
            yield
        finally:
            self.release()

    @contextmanager
    def maybe_exclusive(self, *, timeout_seconds: float) -> Iterator[bool]:
        """Whether it was acquired exclusively within the time. For work that the current holder may do as well."""
        is_held = self.acquire(LockMode.EXCLUSIVE, timeout_seconds=timeout_seconds)
        try:
            yield is_held
        finally:
            if is_held:
                self.release()

    def acquire(self, mode: LockMode, *, timeout_seconds: float | None = None) -> bool:
        """Whether the lock was acquired within the time; None waits without limit, 0 does not wait."""
        deadline = None if timeout_seconds is None else self._locks.monotonic_seconds() + timeout_seconds
        if not self._enter(mode, deadline):
            return False
        got_file = False
        try:
            got_file = self._lock_file(mode, deadline)
        finally:
            if not got_file:
                self._leave()
        return got_file

    def release(self) -> None:
        """Releases the lock; the caller must hold it."""
        self._leave()

    def downgrade(self) -> None:
        """Changes exclusive to shared. Another process cannot get it exclusively in between."""
        with self._mutex:
            assert self._is_exclusive, f"{self.path} is not held exclusively"
            assert self._file is not None
            self._file.lock(LockMode.SHARED, waits=False)
            self._is_exclusive = False
            self._sharer_count = 1
            if self._waiting_count:
                self._changed.notify_all()

    def close(self) -> None:
        """Closes the file, which releases the lock if it is held."""
        with self._mutex:
            file, self._file = self._file, None
            if file is not None:
                file.close()

    def reset_after_fork(self) -> None:
        """For a forked child: closes the inherited file without unlocking it, since the parent shares the lock."""
        file = self._file
        self._begin()
        if file is not None:
            with suppress(OSError):
                file.close()

    def _enter(self, mode: LockMode, deadline: float | None) -> bool:
        """Locks among the threads of this process."""
        with self._mutex:
            while self._is_exclusive or (mode is LockMode.EXCLUSIVE and self._sharer_count):
                left_seconds = None if deadline is None else deadline - self._locks.monotonic_seconds()
                if left_seconds is not None and left_seconds <= 0:
                    return False
                self._waiting_count += 1
                try:
                    self._changed.wait(left_seconds)
                finally:
                    self._waiting_count -= 1
            if mode is LockMode.EXCLUSIVE:
                self._is_exclusive = True
            else:
                self._sharer_count += 1
            return True

    def _leave(self) -> None:
        with self._mutex:
            if self._is_exclusive:
                self._is_exclusive = False
            else:
                assert self._sharer_count > 0, f"{self.path} is not held"
                self._sharer_count -= 1
            if self._waiting_count:
                self._changed.notify_all()
            if not self._sharer_count and self._file is not None:
                self._file.unlock()

    def _lock_file(self, mode: LockMode, deadline: float | None) -> bool:
        """Locks the file for this process. A second sharer locks it again, which changes nothing."""
        with self._mutex:
            if self._file is None:
                self._file = self._locks.open(self.path, mode, creates=self._creates)
            file = self._file
        if deadline is None:
            return file.lock(mode, waits=True)
        while not file.lock(mode, waits=False):
            if self._locks.monotonic_seconds() >= deadline:
                return False
            self._locks.sleep(_POLL_SECONDS)
        return True
