"""A real file system under a process that dies at a chosen operation. What it has done stays, as after kill -9."""

from __future__ import annotations

from support.files.faulty_file_system import Killed
from typing_extensions import Buffer

from broker_core.ports import File
from broker_core.storage.os_file_system import OsFileSystem


class DyingFileSystem(OsFileSystem):
    """`calls` lists the operations that change files, as (kind, path). The process dies before number `dies_at`.

    Syncing is left out: a process that dies loses nothing that the operating system has.
    """

    def __init__(self, dies_at: int | None = None) -> None:
        self.calls: list[tuple[str, str]] = []
        self.is_dead = False
        self._dies_at = dies_at

    def on_call(self, kind: str, path: str) -> None:
        if self.is_dead:
            raise Killed(f"a dead process does nothing: {kind} {path}")
        if len(self.calls) == self._dies_at:
            self.is_dead = True
            raise Killed(f"at {kind} {path}")
        self.calls.append((kind, path))

    def open(self, path: str, *, writable: bool, create: bool = False) -> File:
        if create and not self.exists(path):
            self.on_call("create", path)
        return _DyingFile(self, super().open(path, writable=writable, create=create))

    def make_directory(self, path: str) -> None:
        self.on_call("make_directory", path)
        super().make_directory(path)

    def rename(self, source: str, target: str) -> None:
        self.on_call("rename", target)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.on_call("remove", path)
        super().remove(path)

    def remove_tree(self, path: str) -> None:
        """File by file, so that it can die in the middle."""
        for name in self.list_directory(path):
            self.remove(f"{path}/{name}")
        self.on_call("remove_directory", path)
        super().remove_tree(path)

    def sync_directory(self, path: str) -> None:
        self.on_call("sync_directory", path)

    def write(self, file: File, position: int, data: Buffer) -> None:
        self.on_call("write", file.path)
        file.write_at(position, data)

    def on_synced(self, path: str) -> None:
        """The file was synced: nothing to do here, see the class."""


class _DyingFile:
    def __init__(self, fs: DyingFileSystem, file: File) -> None:
        self._fs, self._file = fs, file

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def descriptor(self) -> None:
        return None

    def size_bytes(self) -> int:
        return self._file.size_bytes()

    def modified_ms(self) -> int:
        return self._file.modified_ms()

    def read_at(self, position: int, length_bytes: int) -> bytes:
        return self._file.read_at(position, length_bytes)

    def view_at(self, position: int, length_bytes: int) -> memoryview:
        return self._file.view_at(position, length_bytes)

    def write_at(self, position: int, data: Buffer) -> None:
        self._fs.write(self._file, position, data)

    def truncate(self, size_bytes: int) -> None:
        self._fs.on_call("truncate", self.path)
        self._file.truncate(size_bytes)

    def sync(self) -> None:
        self._fs.on_call("sync", self.path)
        self._fs.on_synced(self.path)

    def close(self) -> None:
        self._file.close()
