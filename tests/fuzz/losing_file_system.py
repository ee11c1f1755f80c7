"""A real directory under a machine whose power fails: what was not synced is gone, or some sectors of it are.

    fs = LosingFileSystem(root, dies_at=17)     all that `root` holds is on the device
    ... Killed ...
    fs.lose_power(survivors)                    puts the directory into the state that the device is in

`sync` moves a file's bytes to the device, `sync_directory` the names in a directory. Lock files are not known here:
they are made by the operating system's calls, and hold nothing.
"""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from fuzz.dying_file_system import DyingFileSystem
from support.files.faulty_file_system import Killed
from typing_extensions import Buffer

from broker_core.ports import File

_SECTOR_BYTES = 512


@dataclass
class _HeldInode:
    """Held open, so that its number is not given to another file."""

    descriptor: int
    durable: bytes = b""

    def seen(self) -> bytes:
        return os.pread(self.descriptor, os.fstat(self.descriptor).st_size, 0)


class LosingFileSystem(DyingFileSystem):
    """Dies at the operation with number `dies_at`; a write then has put down its first `torn_bytes`."""

    def __init__(self, root: str, dies_at: int | None = None, *, torn_bytes: int = 0) -> None:
        super().__init__(dies_at)
        self.root = root
        self.hits = 0
        """How often power was lost, and something with it."""
        self._torn_bytes = torn_bytes
        self._inodes: dict[int, _HeldInode] = {}
        self._durable_names: dict[str, int | None] = {}
        """Path to inode, None for a directory."""
        for folder, folders, files in os.walk(root):
            self._durable_names |= {f"{folder}/{name}": None for name in folders}
            for name in files:
                self._durable_names[f"{folder}/{name}"] = self._know(f"{folder}/{name}")
                self._put_on_device(f"{folder}/{name}")

    def open(self, path: str, *, writable: bool, create: bool = False) -> File:
        file = super().open(path, writable=writable, create=create)
        self._know(path)
        return file

    def sync_directory(self, path: str) -> None:
        self.on_call("sync_directory", path)
        for name in [name for name in self._durable_names if name.rpartition("/")[0] == path]:
            del self._durable_names[name]
        for entry in os.scandir(path):
            self._durable_names[entry.path] = None if entry.is_dir() else self._know(entry.path)

    def write(self, file: File, position: int, data: Buffer) -> None:
        try:
            self.on_call("write", file.path)
        except Killed:
            torn = bytes(data)[: self._torn_bytes]
            self._torn_bytes = 0
            if torn:
                file.write_at(position, torn)
            raise
        file.write_at(position, data)

    def on_synced(self, path: str) -> None:
        self._put_on_device(path)

    def lose_power(self, survivors: random.Random | None = None) -> None:
        """The directory as the device has it; with `survivors` some unsynced sectors had reached it."""
        content = {number: _on_device(inode, survivors) for number, inode in self._inodes.items()}
        self.hits += any(content[number] != inode.seen() for number, inode in self._inodes.items())
        names = dict(self._durable_names)
        shutil.rmtree(self.root)
        Path(self.root).mkdir()
        for path, number in sorted(names.items()):
            if Path(path).parent.is_dir():
                if number is None:
                    Path(path).mkdir()
                else:
                    Path(path).write_bytes(content[number])

    def close(self) -> None:
        for inode in self._inodes.values():
            os.close(inode.descriptor)
        self._inodes.clear()

    def _know(self, path: str) -> int:
        number = Path(path).stat().st_ino
        if number not in self._inodes:
            self._inodes[number] = _HeldInode(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        return number

    def _put_on_device(self, path: str) -> None:
        inode = self._inodes[self._know(path)]
        inode.durable = inode.seen()


def _on_device(inode: _HeldInode, survivors: random.Random | None) -> bytes:
    device, seen = bytearray(inode.durable), inode.seen()
    if survivors is None or len(seen) < len(device):
        return bytes(device)
    for position in range(0, len(seen), _SECTOR_BYTES):
        sector = seen[position : position + _SECTOR_BYTES]
        if sector != device[position : position + _SECTOR_BYTES] and survivors.random() < 0.5:
            device.extend(bytes(max(0, position + len(sector) - len(device))))
            device[position : position + len(sector)] = sector
    return bytes(device)
