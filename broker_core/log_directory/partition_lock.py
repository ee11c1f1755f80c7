"""A lock file that excludes threads and processes alike: `.lock` in a partition's folder and in the root.

On Linux it is an open-file-description lock (F_OFD_SETLK) on the whole file. Such a lock conflicts with the classic
record locks that Java's FileChannel.lock takes, so a Kafka broker and an embedded process keep each other out; it
belongs to the open file and not to the process, so two objects in one process exclude each other too. Elsewhere it is
flock. Both vanish with the process that held them, however it died: there is nothing to clean up after a crash.

Threads of a process that share one PartitionLock first settle among themselves (many sharers, or one exclusive owner);
the file is locked for the first of them and unlocked by the last. The lock is not reentrant.

A file is opened at the first use and kept open. A folder that was renamed away takes its lock file along: who waits for
it gets it in the end and must then look whether the partition is still the one that was meant.
"""

from __future__ import annotations

import enum
import errno
import fcntl
import os
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from broker_core.log_directory.fork_guard import watch_for_fork

LOCK_FILE_NAME: Final = ".lock"

_POLL_SECONDS = 0.005
_BUSY = frozenset({errno.EAGAIN, errno.EACCES})
# struct flock of 64-bit Linux: type, whence, start, length (0: to the end), pid (must be 0), padding.
_FLOCK = struct.Struct("hhqqi4x")
_HAS_OFD_LOCKS = sys.platform == "linux" and sys.maxsize > 2**32 and hasattr(fcntl, "F_OFD_SETLK")


class LockMode(enum.Enum):
    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class PartitionLock:
    """The lock on the file at `path`. With `creates` the file is made if it is missing; without it, FileNotFoundError.

    A file that may not be written to can still be locked in shared mode.
    """

    def __init__(self, path: str, *, creates: bool = True) -> None:
        self.path = path
        self._creates = creates
        self._begin()
        watch_for_fork(self)

    def _begin(self) -> None:
        self._descriptor = -1
        self._is_read_only = False
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)
        self._waiting_count = 0
        self._sharer_count = 0
        self._is_exclusive = False

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Waits until nobody else holds the lock in any mode."""
        self.acquire(LockMode.EXCLUSIVE)
        try:
            yield
        finally:
            self.release()

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Waits until nobody holds the lock exclusively."""
        self.acquire(LockMode.SHARED)
        try:
            yield
        finally:
            self.release()

    @contextmanager
    def maybe_exclusive(self, *, timeout_seconds: float) -> Iterator[bool]:
        """Whether it was got exclusively within the time: for what can as well be left to whoever holds it."""
        is_held = self.acquire(LockMode.EXCLUSIVE, timeout_seconds=timeout_seconds)
        try:
            yield is_held
        finally:
            if is_held:
                self.release()

    def acquire(self, mode: LockMode, *, timeout_seconds: float | None = None) -> bool:
        """Whether the lock was got within the time; None waits as long as it takes, 0 does not wait."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
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
        """Gives the lock back; the caller must hold it."""
        self._leave()

    def downgrade(self) -> None:
        """Exclusive to shared, with no instant in between in which another process could get it exclusively."""
        with self._mutex:
            assert self._is_exclusive, f"{self.path} is not held exclusively"
            self._set(LockMode.SHARED, wait=False)
            self._is_exclusive = False
            self._sharer_count = 1
            if self._waiting_count:
                self._changed.notify_all()

    def close(self) -> None:
        """Closes the file, which gives up whatever was held."""
        with self._mutex:
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0:
                os.close(descriptor)

    def reset_after_fork(self) -> None:
        """In a forked child: the inherited descriptor is closed, not unlocked, since the lock is the parent's too."""
        descriptor = self._descriptor
        self._begin()
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", -1)
        if descriptor >= 0:
            os.close(descriptor)

    def _enter(self, mode: LockMode, deadline: float | None) -> bool:
        """Settles among the threads of this process."""
        with self._mutex:
            while self._is_exclusive or (mode is LockMode.EXCLUSIVE and self._sharer_count):
                left_seconds = None if deadline is None else deadline - time.monotonic()
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
            if not self._sharer_count and self._descriptor >= 0:
                self._unlock()

    def _lock_file(self, mode: LockMode, deadline: float | None) -> bool:
        """Locks the file for this process. A second sharer locks what is locked already, which changes nothing."""
        with self._mutex:
            if self._descriptor < 0:
                self._descriptor = self._open(mode)
            if self._is_read_only and mode is LockMode.EXCLUSIVE:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self.path)
        if deadline is None:
            self._set(mode, wait=True)
            return True
        while True:
            try:
                self._set(mode, wait=False)
                return True
            except OSError as error:
                if error.errno not in _BUSY:
                    raise
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)

    def _open(self, mode: LockMode) -> int:
        flags = os.O_CLOEXEC | (os.O_CREAT if self._creates else 0)
        try:
            return os.open(self.path, os.O_RDWR | flags, 0o644)
        except OSError as error:
            if mode is LockMode.EXCLUSIVE or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            self._is_read_only = True
            return descriptor

    def _set(self, mode: LockMode, *, wait: bool) -> None:
        if _HAS_OFD_LOCKS:
            kind = fcntl.F_WRLCK if mode is LockMode.EXCLUSIVE else fcntl.F_RDLCK
            command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
            fcntl.fcntl(self._descriptor, command, _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))
        else:
            kind = fcntl.LOCK_EX if mode is LockMode.EXCLUSIVE else fcntl.LOCK_SH
            fcntl.flock(self._descriptor, kind if wait else kind | fcntl.LOCK_NB)

    def _unlock(self) -> None:
        if _HAS_OFD_LOCKS:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
        else:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
