"""The operating system's clock, randomness and lock files: the default services of a directory.

On Linux a lock is an open-file-description lock (F_OFD_SETLK) on the whole file. Such a lock conflicts with the classic
record locks that Java's FileChannel.lock takes, so a Kafka broker and an embedded process keep each other out; it
belongs to the open file and not to the process, so two objects in one process exclude each other too. Elsewhere it is
flock. Both end with the process that held them, also after a crash, so no cleanup is needed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
import time
from typing import Final

from broker_core.ports import LockMode

_BUSY: Final = frozenset({errno.EAGAIN, errno.EACCES})
# struct flock of 64-bit Linux: type, whence, start, length (0: to the end), pid (must be 0), padding.
_FLOCK: Final = struct.Struct("hhqqi4x")
_HAS_OFD_LOCKS: Final = sys.platform == "linux" and sys.maxsize > 2**32 and hasattr(fcntl, "F_OFD_SETLK")


class SystemClock:
    """`broker_core.ports.Clock` of the system's wall clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class SystemEntropy:
    """`broker_core.ports.Entropy` of the operating system's random generator."""

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)


class SystemLocks:
    """`broker_core.ports.Locks` of the operating system."""

    def open(self, path: str, mode: LockMode, *, creates: bool) -> SystemLockFile:
        flags = os.O_CLOEXEC | (os.O_CREAT if creates else 0)
        try:
            return SystemLockFile(path, os.open(path, os.O_RDWR | flags, 0o644), is_read_only=False)
        except OSError as error:
            if mode is LockMode.EXCLUSIVE or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            return SystemLockFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC), is_read_only=True)

    def monotonic_seconds(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class SystemLockFile:
    """Closing it does not release a lock that a forked parent holds through the same open file."""

    def __init__(self, path: str, descriptor: int, *, is_read_only: bool) -> None:
        self._path = path
        self._descriptor = descriptor
        self._is_read_only = is_read_only

    def lock(self, mode: LockMode, *, waits: bool) -> bool:
        if self._is_read_only and mode is LockMode.EXCLUSIVE:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self._path)
        try:
            self._set(mode, waits=waits)
        except OSError as error:
            if waits or error.errno not in _BUSY:
                raise
            return False
        return True

    def unlock(self) -> None:
        if _HAS_OFD_LOCKS:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
        else:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def _set(self, mode: LockMode, *, waits: bool) -> None:
        if _HAS_OFD_LOCKS:
            kind = fcntl.F_WRLCK if mode is LockMode.EXCLUSIVE else fcntl.F_RDLCK
            command = fcntl.F_OFD_SETLKW if waits else fcntl.F_OFD_SETLK
            fcntl.fcntl(self._descriptor, command, _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))
        else:
            kind = fcntl.LOCK_EX if mode is LockMode.EXCLUSIVE else fcntl.LOCK_SH
            fcntl.flock(self._descriptor, kind if waits else kind | fcntl.LOCK_NB)


def is_locked_exclusively(path: str) -> bool:
    """Whether another open file holds the exclusive lock. The lock is not taken for that, not for an instant, so that
    nobody who takes it just now is refused. False where the system cannot tell (not Linux), or there is no file."""
    if not _HAS_OFD_LOCKS:
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        asked = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
    finally:
        os.close(descriptor)
    return bool(_FLOCK.unpack(found)[0] == fcntl.F_WRLCK)


SYSTEM_LOCKS: Final = SystemLocks()
