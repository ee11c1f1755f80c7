"""Turns errors of the operating system into the project's exceptions, where the operation is known."""

from __future__ import annotations

import errno

from broker_core.model.exceptions import (
    DirectoryReadOnlyError,
    DiskFullError,
    StorageError,
    TooManyOpenFilesError,
)

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
_NO_ACCESS = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def storage_error(doing: str, directory: str, error: OSError) -> StorageError:
    """The exception for an OSError that occurred while `doing` something in `directory`."""
    reason = error.strerror or str(error)
    where = error.filename or directory
    if error.errno in NO_SPACE:
        return DiskFullError(
            f"No space left on the device while {doing} in {directory}: {reason}. Nothing was written. Free space and"
            " try again: lower retention.ms or retention.bytes of a topic and run 'streamlog log maintain', or delete a"
            " topic with 'streamlog topic delete'.",
            directory=directory,
        )
    if error.errno == errno.EFBIG:
        return StorageError(
            f"A file would be larger than this process may write, while {doing} in {directory}: {reason}. Nothing was"
            " written. Raise the limit of the process (RLIMIT_FSIZE, ulimit -f) or lower segment.bytes, and try again.",
            directory=directory,
        )
    if error.errno in _NO_ACCESS:
        return DirectoryReadOnlyError(
            f"No write access while {doing} in {directory}: {where}: {reason}", directory=directory
        )
    if error.errno in _NO_DESCRIPTOR:
        return TooManyOpenFilesError(
            f"No file descriptor is left while {doing} in {directory}: {reason}. Raise the limit of the process"
            " (ulimit -n) and try again.",
            directory=directory,
        )
    return StorageError(f"I/O error while {doing} in {directory}: {where}: {reason}", directory=directory)


class translated:
    """Raises StorageError or a subclass for an OSError inside the block."""

    __slots__ = ("_directory", "_doing")

    def __init__(self, doing: str, directory: str) -> None:
        self._doing = doing
        self._directory = directory

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise storage_error(self._doing, self._directory, error) from error
