"""The real FileSystem: positional reads and writes, fdatasync, directory fsync. The only file of the room with `os`.

Every error is the operating system's OSError, unchanged; `storage_errors` turns it into the project's exceptions where
the operation is known. Reads and writes loop until all bytes are transferred, since one call may transfer fewer.
"""

from __future__ import annotations

import os
import shutil
import stat
from typing import Final

from typing_extensions import Buffer

from broker_core.model.limits import MAX_KEPT_READ_BYTES
from broker_core.ports import File, FileStat
from broker_core.storage.read_buffers import ReadBuffers

_NEW_FILE_MODE = 0o644
_NEW_DIRECTORY_MODE = 0o755
_WRITE_BYTES = 1024 * 1024
"""Limit of one write call. Linux caches the written bytes in pages as large as the call covers, and may need to request
pages of 2 MiB from a hypervisor: in a virtual machine 8 MiB took ten times as long in one call as in pieces."""

_READ_BUFFERS: Final = ReadBuffers(kept_bytes=MAX_KEPT_READ_BYTES)
"""Of the process."""


class OsFile:
    """One open descriptor. Closing twice is harmless."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path

    @property
    def path(self) -> str:
        return self._path

    @property
    def descriptor(self) -> int | None:
        return self._descriptor

    def size_bytes(self) -> int:
        return os.fstat(self._descriptor).st_size

    def modified_ms(self) -> int:
        return os.fstat(self._descriptor).st_mtime_ns // 1_000_000

    def read_at(self, position: int, length_bytes: int) -> bytes:
        first = os.pread(self._descriptor, length_bytes, position)
        if len(first) == length_bytes or not first:
            return first
        parts = [first]
        done_bytes = len(first)
        while done_bytes < length_bytes:
            part = os.pread(self._descriptor, length_bytes - done_bytes, position + done_bytes)
            if not part:
                break
            parts.append(part)
            done_bytes += len(part)
        return first if len(parts) == 1 else b"".join(parts)

    def view_at(self, position: int, length_bytes: int) -> memoryview:
        view = _READ_BUFFERS.take(length_bytes)
        if view is None:
            return memoryview(self.read_at(position, length_bytes))
        done_bytes = 0
        while done_bytes < length_bytes:
            part_bytes = os.preadv(self._descriptor, [view[done_bytes:]], position + done_bytes)
            if not part_bytes:
                break
            done_bytes += part_bytes
        return view[:done_bytes]

    def write_at(self, position: int, data: Buffer) -> None:
        rest = memoryview(data).cast("B")
        while rest:
            piece = rest if len(rest) <= _WRITE_BYTES else rest[:_WRITE_BYTES]
            written_bytes = os.pwrite(self._descriptor, piece, position)
            rest = rest[written_bytes:]
            position += written_bytes

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class OsFileSystem:
    """`broker_core.ports.FileSystem` on a local file system."""

    def open(self, path: str, *, writable: bool, create: bool = False) -> File:
        flags = os.O_CLOEXEC | (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0)
        return OsFile(os.open(path, flags, _NEW_FILE_MODE), path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def stat(self, path: str) -> FileStat | None:
        try:
            state = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return FileStat(state.st_dev, state.st_ino, state.st_mtime_ns, stat.S_ISDIR(state.st_mode))

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        os.mkdir(path, _NEW_DIRECTORY_MODE)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        state = os.statvfs(path)
        return state.f_bavail * state.f_frsize

    def total_bytes(self, path: str) -> int:
        state = os.statvfs(path)
        return state.f_blocks * state.f_frsize
