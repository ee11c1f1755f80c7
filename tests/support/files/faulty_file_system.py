"""In-memory and faulty twin of `broker_core.ports.FileSystem`.

A file has what processes see (the page cache) and what is on the device. `sync` moves bytes to the device,
`sync_directory` moves names; `power_loss` keeps the device only, plus what `survivors` lets through. Faults are armed
by a method and counted in `hits` when they strike, so that a test can assert that its fault was hit.

    fs.fill_up_after(bytes)     growth beyond so many bytes: the part that fits is written, then ENOSPC
    fs.kill_at_call(number, torn_bytes=...)   the process dies at that call from now on: Killed, and every open file of
                                it is dead; a write then has put down only its first torn_bytes
    fs.fail_sync()              the next fdatasync fails with EIO
    fs.restart()                a new process sees the page cache
    fs.power_loss(survivors)    a new process sees the device
    Neighbour(fs)               another process on the same disk, which lives on when the first one is killed
"""

from __future__ import annotations

import errno
import itertools
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import Buffer

from broker_core.ports import File, FileStat

_SECTOR_BYTES = 512


class Killed(BaseException):
    """The process died here. Not an Exception: no `except Exception` of the code under test may survive it."""


@dataclass
class _Inode:
    seen: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    dirty_sectors: set[int] = field(default_factory=set)
    modified_ms: int = 0
    number: int = field(default_factory=itertools.count(1).__next__)


class MemoryFile:
    def __init__(self, fs: FaultyFileSystem | Neighbour, path: str, inode: _Inode, *, writable: bool) -> None:
        self._fs, self._path, self._inode, self._writable = fs, path, inode, writable
        self._life = fs.life

    def of(self, neighbour: Neighbour) -> MemoryFile:
        """The same file, open in the neighbour."""
        return MemoryFile(neighbour, self._path, self._inode, writable=self._writable)

    @property
    def path(self) -> str:
        return self._path

    def _check_alive(self) -> None:
        if self._life != self._fs.life:
            raise OSError(errno.EBADF, "file of a dead process", self._path)

    def _check_writable(self) -> None:
        if not self._writable:
            raise OSError(errno.EBADF, "not open for writing", self._path)

    @property
    def descriptor(self) -> None:
        return None

    def size_bytes(self) -> int:
        self._check_alive()
        return len(self._inode.seen)

    def modified_ms(self) -> int:
        self._check_alive()
        return self._inode.modified_ms

    def read_at(self, position: int, length_bytes: int) -> bytes:
        self._check_alive()
        self._fs.read_count += 1
        return bytes(self._inode.seen[position : position + length_bytes])

    def view_at(self, position: int, length_bytes: int) -> memoryview:
        return memoryview(self.read_at(position, length_bytes))

    def write_at(self, position: int, data: Buffer) -> None:
        self._check_alive()
        self._check_writable()
        content = bytes(data)
        torn_bytes = self._fs.on_call("write", self._path, allow_torn=True)
        if torn_bytes is not None:
            self._put(position, content[:torn_bytes])
            self._fs.die("torn_write")
        growth_bytes = max(0, position + len(content) - len(self._inode.seen))
        room_bytes = self._fs.take_space(growth_bytes)
        if room_bytes < growth_bytes:
            self._put(position, content[: len(content) - (growth_bytes - room_bytes)])
            self._fs.hits["disk_full"] += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        self._put(position, content)

    def _put(self, position: int, content: bytes) -> None:
        seen = self._inode.seen
        self._inode.modified_ms = self._fs.now_ms
        if not content:
            return
        if len(seen) < position:
            seen.extend(bytes(position - len(seen)))
        seen[position : position + len(content)] = content
        last_sector = (position + len(content) - 1) // _SECTOR_BYTES
        self._inode.dirty_sectors.update(range(position // _SECTOR_BYTES, last_sector + 1))

    def truncate(self, size_bytes: int) -> None:
        self._check_alive()
        self._check_writable()
        self._fs.on_call("truncate", self._path)
        seen = self._inode.seen
        if size_bytes < len(seen):
            self._fs.give_space(len(seen) - size_bytes)
            del seen[size_bytes:]
        else:
            seen.extend(bytes(size_bytes - len(seen)))

    def sync(self) -> None:
        self._check_alive()
        self._fs.on_call("sync", self._path)
        if self._fs.take_sync_failure():
            raise OSError(errno.EIO, os.strerror(errno.EIO), self._path)
        self._inode.durable = bytes(self._inode.seen)
        self._inode.dirty_sectors.clear()

    def close(self) -> None:
        return None


class FaultyFileSystem:
    """Paths are absolute strings; "/" exists. `calls` lists the mutating calls as (kind, path)."""

    def __init__(self) -> None:
        self._names: dict[str, _Inode | None] = {"": None}
        self._durable_names: dict[str, _Inode | None] = {"": None}
        self._free_bytes: int | None = None
        self._kill_at: int | None = None
        self._torn_bytes: int | None = None
        self._sync_failures = 0
        self.life = 0
        self.is_dead = False
        self.is_read_only = False
        self.now_ms = 0
        self.read_count = 0
        self.hits: Counter[str] = Counter()
        self.calls: list[tuple[str, str]] = []

    # -- arming faults --
    def fill_up_after(self, free_bytes: int) -> None:
        self._free_bytes = free_bytes

    def free_space(self) -> None:
        self._free_bytes = None

    def kill_at_call(self, number: int, *, torn_bytes: int | None = None) -> None:
        """0 is the next mutating call: it does not happen, or, a write with `torn_bytes`, only so far."""
        self._kill_at = len(self.calls) + number
        self._torn_bytes = torn_bytes

    def fail_sync(self, count: int = 1) -> None:
        self._sync_failures = count

    def restart(self) -> None:
        self.life += 1
        self.is_dead = False
        self._kill_at = self._torn_bytes = None

    def power_loss(self, survivors: random.Random | None = None) -> None:
        """What was not synced is gone. With `survivors`, some unsynced sectors (never whole order) reached the
        device."""
        self.hits["power_loss"] += 1
        self.restart()
        for inode in {id(inode): inode for inode in self._names.values() if inode is not None}.values():
            self._lose_unsynced(inode, survivors)
        self._names = dict(self._durable_names)

    def _lose_unsynced(self, inode: _Inode, survivors: random.Random | None) -> None:
        device = bytearray(inode.durable)
        if survivors is not None and len(inode.seen) >= len(device):
            for sector in sorted(inode.dirty_sectors):
                if survivors.random() < 0.5:
                    position = sector * _SECTOR_BYTES
                    content = inode.seen[position : position + _SECTOR_BYTES]
                    device.extend(bytes(max(0, position + len(content) - len(device))))
                    device[position : position + len(content)] = content
        if bytes(device) != bytes(inode.seen):
            self.hits["lost_bytes"] += 1
        inode.seen = device
        inode.durable = bytes(device)
        inode.dirty_sectors.clear()

    # -- called by the files --
    def on_call(self, kind: str, path: str, *, allow_torn: bool = False) -> int | None:
        if self.is_dead:
            raise Killed(f"a dead process does nothing: {kind} {path}")
        number = len(self.calls)
        self.calls.append((kind, path))
        if self.is_read_only:
            self.hits["read_only"] += 1
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        if number != self._kill_at:
            return None
        if allow_torn and self._torn_bytes is not None:
            return self._torn_bytes
        self.die("killed")
        return None

    def die(self, kind: str) -> None:
        self.hits[kind] += 1
        self.life += 1
        self.is_dead = True
        raise Killed(f"at call {self.calls[-1]}")

    def take_space(self, growth_bytes: int) -> int:
        if self._free_bytes is None:
            return growth_bytes
        taken_bytes = min(growth_bytes, self._free_bytes)
        self._free_bytes -= taken_bytes
        return taken_bytes

    def give_space(self, freed_bytes: int) -> None:
        if self._free_bytes is not None:
            self._free_bytes += freed_bytes

    def take_sync_failure(self) -> bool:
        if not self._sync_failures:
            return False
        self._sync_failures -= 1
        self.hits["sync_failed"] += 1
        return True

    # -- ports.FileSystem --
    def open(self, path: str, *, writable: bool, create: bool = False) -> File:
        inode = self._names.get(path)
        if path in self._names and inode is None:
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if inode is None:
            if not create or path.rpartition("/")[0] not in self._names:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self.on_call("create", path)
            inode = self._names[path] = _Inode()
        elif writable and self.is_read_only:
            self.on_call("open", path)
        return MemoryFile(self, path, inode, writable=writable)

    def exists(self, path: str) -> bool:
        return path in self._names

    def stat(self, path: str) -> FileStat | None:
        if path not in self._names:
            return None
        inode = self._names[path]
        if inode is None:
            return FileStat(device=1, inode=0, modified_ns=0, is_directory=True)
        return FileStat(device=1, inode=inode.number, modified_ns=inode.modified_ms * 1_000_000, is_directory=False)

    def list_directory(self, path: str) -> list[str]:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return sorted(name.rpartition("/")[2] for name in self._names if name.rpartition("/")[0] == path and name)

    def make_directory(self, path: str) -> None:
        if path in self._names:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self.on_call("make_directory", path)
        self._names[path] = None

    def rename(self, source: str, target: str) -> None:
        if source not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        self.on_call("rename", target)
        moved = {name: inode for name, inode in self._names.items() if name == source or name.startswith(source + "/")}
        for name in moved:
            del self._names[name]
        for name, inode in moved.items():
            self._names[target + name[len(source) :]] = inode

    def remove(self, path: str) -> None:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self.on_call("remove", path)
        inode = self._names.pop(path)
        assert inode is not None, f"remove of a directory: {path}"
        self.give_space(len(inode.seen))

    def remove_tree(self, path: str) -> None:
        for name in [name for name in self._names if name.startswith(path + "/")]:
            if self._names[name] is not None:
                self.remove(name)
            else:
                del self._names[name]
        self.on_call("remove_directory", path)
        del self._names[path]

    def sync_directory(self, path: str) -> None:
        self.on_call("sync_directory", path)
        here = {name for name in self._durable_names.keys() | self._names.keys() if name.rpartition("/")[0] == path}
        for name in here:
            if name in self._names:
                self._durable_names[name] = self._names[name]
            else:
                self._durable_names.pop(name, None)

    def free_bytes(self, path: str) -> int:
        return 2**40 if self._free_bytes is None else self._free_bytes

    def total_bytes(self, path: str) -> int:
        return 2**41

    # -- for tests --
    def content(self, path: str) -> bytes:
        inode = self._names[path]
        assert inode is not None, f"{path} is a directory"
        return bytes(inode.seen)

    def overwrite(self, path: str, content: bytes) -> None:
        """Puts `content` there, on the device too, as somebody else would."""
        inode = self._names.get(path) or _Inode()
        inode.seen, inode.durable = bytearray(content), content
        inode.dirty_sectors.clear()
        self._names[path] = self._durable_names[path] = inode

    def snapshot(self) -> dict[str, bytes]:
        """Path to content of every file."""
        return {name: bytes(inode.seen) for name, inode in self._names.items() if inode is not None}


class Neighbour:
    """The disk as another process sees it: its files stay open when others die."""

    life = -1

    def __init__(self, fs: FaultyFileSystem) -> None:
        self._fs = fs

    def open(self, path: str, *, writable: bool, create: bool = False) -> File:
        opened = self._fs.open(path, writable=writable, create=create)
        assert isinstance(opened, MemoryFile)
        return opened.of(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)
