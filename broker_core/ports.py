"""The outside world as protocols: a clock, randomness, files and locks, blocking jobs, object storage.

Machines take time and random bytes as arguments; drivers get these ports. `storage/os_file_system.py` is the real
FileSystem; tests use a faulty twin (disk full, torn write, lost unsynced bytes, kill between two calls).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from typing_extensions import Buffer

Value = TypeVar("Value")


class Clock(Protocol):
    """Milliseconds since 1970-01-01 UTC."""

    def now_ms(self) -> int: ...


class Entropy(Protocol):
    """Source of random bytes for ids."""

    def random_bytes(self, count: int) -> bytes: ...


class Jobs(Protocol):
    """Runs work that may block outside the loop that owns a node's state, and returns to the loop.

    A server runs jobs in threads, a simulation in the order of its seed.
    """

    def submit(
        self, work: Callable[[], Value], on_value: Callable[[Value], None], on_error: Callable[[Exception], None]
    ) -> None:
        """Runs `work()` elsewhere; then one of the two callbacks runs on the loop, never inside this call."""
        ...


class LoopWrites(Protocol):
    """For a node whose loop writes to the page cache itself and only syncs elsewhere: handing every write to a thread
    and back costs more than the write."""

    def at_end_of_turn(self, callback: Callable[[], None]) -> None:
        """Runs it on the loop after the events received so far, so that their writes are grouped."""
        ...

    def sync(
        self,
        work: Callable[[], None],
        on_synced: Callable[[], None],
        on_error: Callable[[Exception], None],
        *,
        descriptor: int | None = None,
    ) -> None:
        """Like `Jobs.submit`, for work that is one sync of one file: it must not queue behind jobs that may wait for a
        lock that it will release. `descriptor`: that of the file; then an fdatasync of it may replace `work`, and
        `on_error` may get an OSError."""
        ...


class File(Protocol):
    """One open file. Positions and sizes in bytes. Every call raises OSError."""

    @property
    def path(self) -> str: ...

    @property
    def descriptor(self) -> int | None:
        """The file descriptor, for a sync without Python; None: `sync` is the only way."""
        ...

    def size_bytes(self) -> int: ...

    def modified_ms(self) -> int:
        """The time of its last change, in ms since 1970."""
        ...

    def read_at(self, position: int, length_bytes: int) -> bytes:
        """Up to `length_bytes` from `position`; fewer only at the end of the file."""
        ...

    def view_at(self, position: int, length_bytes: int) -> memoryview:
        """The same for large reads. The memory is not reused while there is a view of it."""
        ...

    def write_at(self, position: int, data: Buffer) -> None:
        """Writes all of `data`, or raises OSError after a part of it."""
        ...

    def truncate(self, size_bytes: int) -> None: ...

    def sync(self) -> None:
        """fdatasync: data and size are on the device when it returns."""
        ...

    def close(self) -> None: ...


class FileStat(NamedTuple):
    """What stands at a path. Two files that are not the same differ in device or inode, or, where a number was used
    again, in the time."""

    device: int
    inode: int
    modified_ns: int
    is_directory: bool


class FileSystem(Protocol):
    """Directory operations. Paths are absolute strings."""

    def open(self, path: str, *, writable: bool, create: bool = False) -> File: ...

    def exists(self, path: str) -> bool: ...

    def stat(self, path: str) -> FileStat | None:
        """None: there is nothing at the path. Raises OSError where that cannot be known."""
        ...

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
        """Free bytes of the device that holds the path."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """One object as it was read. `etag` names this version of it for `put_if_matches`."""

    data: memoryview
    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEntry:
    """One object in a listing. `modified_ms` is by the store's clock, in ms since 1970."""

    path: str
    size_bytes: int
    modified_ms: int


class ObjectUpload(Protocol):
    """One object that is written in parts. It does not exist before `finish` returns."""

    def write(self, data: Buffer) -> None:
        """Takes the bytes; at most some parts of them are held in memory. Raises as `ObjectStore` does."""
        ...

    def finish(self) -> None:
        """The object exists when it returns. After an error it may or may not exist."""
        ...

    def abort(self) -> None:
        """Removes the parts that the store holds. Never raises; harmless after `finish`."""
        ...


class ObjectStore(Protocol):
    """The requests that a log on object storage needs. Paths are relative to the log, with `/`.

    Each write is atomic, and what a write has made is seen by every request that starts after it returned. Every call
    raises ObjectPermissionError, ObjectThrottledError and ObjectStoreUnavailableError; a write raises
    ObjectOutcomeUnknownError where it may have been applied, and DiskFullError where a full disk refused it.
    """

    @property
    def url(self) -> str:
        """For messages. Holds no secret."""
        ...

    @property
    def lists_from_start(self) -> bool:
        """Whether `list_after` also reads the names before `after`, as in a folder: then it costs more the more of them
        there are."""
        ...

    def get(self, path: str) -> StoredObject:
        """Raises ObjectNotFoundError."""
        ...

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """(position, length) pairs, in bytes. A range is short only where the object ends. Raises ObjectNotFoundError.

        Ranges that adjoin are read by one request.
        """
        ...

    def put(self, path: str, data: Buffer) -> None:
        """Makes or replaces the object, whatever is there."""
        ...

    def put_if_absent(self, path: str, data: Buffer) -> str:
        """Makes the object and returns its etag. Raises ObjectPreconditionError if it exists.

        Where a client library repeats a request whose answer was lost, the object that exists may be this one: read it.
        """
        ...

    def put_if_matches(self, path: str, data: Buffer, etag: str) -> str:
        """Replaces this version of the object and returns the new etag. Raises ObjectPreconditionError if it is gone or
        another one; as above it may be this very one."""
        ...

    def upload(self, path: str) -> ObjectUpload:
        """Begins an object that is written in parts. No other writer may use the path."""
        ...

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectEntry]:
        """Objects under `prefix`, which ends with `/`, whose path is above `after`, ordered by path."""
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """Objects that do not exist are no error."""
        ...

    def remove_abandoned(self, before_ms: int) -> int:
        """Removes what uploads that died before that time left behind, where a client can see it. Returns how many."""
        ...

    def close(self) -> None: ...


class LockMode(enum.Enum):
    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class LockFile(Protocol):
    """An open lock file. Two of the same path exclude each other, in one process and in several; whatever is held goes
    when it is closed, or its process ends."""

    def lock(self, mode: LockMode, *, waits: bool) -> bool:
        """Whether it is held in this mode now, which replaces the mode before without a gap. `waits`: as long as it
        takes. Raises OSError."""
        ...

    def unlock(self) -> None: ...

    def close(self) -> None: ...


class Locks(Protocol):
    """Lock files, and the time that passes while a process waits for one."""

    def open(self, path: str, mode: LockMode, *, creates: bool) -> LockFile:
        """To be locked in this mode at first; with `creates` the file is made if it is missing. Raises OSError: a file
        that may not be written can be locked in SHARED mode only."""
        ...

    def monotonic_seconds(self) -> float:
        """Since some instant; never goes back."""
        ...

    def sleep(self, seconds: float) -> None: ...
