"""What the house needs from the outside world, as protocols: a clock, dice, files, and somebody to wait elsewhere.

Machines take time and dice as arguments; drivers are handed these. `storage/os_file_system.py` is the real
FileSystem; tests put a faulty twin in its place (disk full, torn write, lost unsynced bytes, kill between two calls).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from typing_extensions import Buffer

Value = TypeVar("Value")


class Clock(Protocol):
    """Milliseconds since 1970-01-01 UTC."""

    def now_ms(self) -> int: ...


class Entropy(Protocol):
    """Source of random bytes for ids."""

    def random_bytes(self, count: int) -> bytes: ...


class Jobs(Protocol):
    """Does what may block, away from the loop that owns a node's state, and comes back to it.

    A server runs jobs in threads, a simulation one after the other as its seed says.
    """

    def submit(
        self, work: Callable[[], Value], on_value: Callable[[Value], None], on_error: Callable[[Exception], None]
    ) -> None:
        """Runs `work()` elsewhere; then one of the other two runs on the loop, never inside of this call."""
        ...


class LoopWrites(Protocol):
    """For a node whose loop writes by itself what ends in the page cache, and has the syncs done elsewhere: handing
    every write to a thread and back costs more than the write."""

    def at_end_of_turn(self, callback: Callable[[], None]) -> None:
        """Runs it on the loop once what has come by now was dealt with: so that it is written together."""
        ...

    def sync(
        self,
        work: Callable[[], None],
        on_synced: Callable[[], None],
        on_error: Callable[[Exception], None],
        *,
        descriptor: int | None = None,
    ) -> None:
        """As `Jobs.submit`, for work that is one sync of one file and waits for nobody: it must not queue behind jobs
        that may be waiting for what it will give free. `descriptor`: of the file; then an fdatasync of it may be done
        instead of `work`, and `on_error` be given an OSError."""
        ...


class File(Protocol):
    """One open file. Positions and sizes in bytes. Every call raises OSError as the operating system does."""

    @property
    def path(self) -> str: ...

    @property
    def descriptor(self) -> int | None:
        """The operating system's, for who can sync without Python; None: `sync` is the only way."""
        ...

    def size_bytes(self) -> int: ...

    def modified_ms(self) -> int:
        """When its content last changed, in ms since 1970."""
        ...

    def read_at(self, position: int, length_bytes: int) -> bytes:
        """Up to `length_bytes` from `position`; fewer only at the end of the file."""
        ...

    def view_at(self, position: int, length_bytes: int) -> memoryview:
        """The same for what is large. The memory is not used for anything else as long as there is a view of it."""
        ...

    def write_at(self, position: int, data: Buffer) -> None:
        """All of `data`, or OSError after some of it."""
        ...

    def truncate(self, size_bytes: int) -> None: ...

    def sync(self) -> None:
        """fdatasync: data and size are on the device when it returns."""
        ...

    def close(self) -> None: ...


class FileSystem(Protocol):
    """The directory operations that a log needs. Paths are absolute strings."""

    def open(self, path: str, *, writable: bool, create: bool = False) -> File: ...

    def exists(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]:
        """Names, sorted."""
        ...

    def make_directory(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None:
        """Atomic, replaces the target."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Makes creations, renames and removals in the directory durable."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int:
        """Of the device that holds the path."""
        ...
