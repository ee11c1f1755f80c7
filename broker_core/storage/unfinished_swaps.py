"""The view of a folder in which a real Kafka stopped during a compaction's swap, as Kafka's next start would see it.

Kafka renames the cleaned files to `*.swap`, then the segments that they replace to `*.deleted`, then drops `.swap`. In
between, the compacted records are only in `*.swap`: a reader of the plain names finds a hole. At its next start Kafka
finishes the swap, and this view does the same, in names only:

    *.cleaned     the result was not complete: a .swap at or above the lowest of them is ignored
    <base>.*.swap replaces <base>.*; segments and indexes between its first and its last offset are hidden

A running Kafka does all this quickly: a name that is gone when it is opened was renamed, and the caller lists again.
"""

from __future__ import annotations

from broker_core.ports import File, FileStat, FileSystem
from broker_core.storage.batch_walk import walk_headers
from broker_core.storage.segment_names import (
    CLEANED,
    LOG,
    SWAP,
    FolderListing,
    SegmentFileName,
    parse_name,
    segment_path,
)


class SwapsFinished:
    """A FileSystem for reading. All other calls go to the inner one."""

    def __init__(self, inner: FileSystem) -> None:
        self._inner = inner

    def open(self, path: str, *, writable: bool, create: bool = False) -> File:
        assert not writable and not create, f"{path}: a directory of Apache Kafka is only read"
        if self._is_swapped(path):
            try:
                return self._inner.open(path + SWAP, writable=False)
            except FileNotFoundError:
                pass  # put in place just now
        return self._inner.open(path, writable=False)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path) or self._is_swapped(path)

    def stat(self, path: str) -> FileStat | None:
        """For a file that no compaction swaps."""
        return self._inner.stat(path)

    def list_directory(self, path: str) -> list[str]:
        names = self._inner.list_directory(path)
        if not any(name.endswith(SWAP) for name in names):
            return names
        swapped = _valid_swaps(names)
        bases = [name.base_offset for name in swapped if name.kind == LOG]
        if not bases:
            return names
        from_offset = min(bases)
        until_offset = max(self._next_offset(path, base) for base in bases)
        kept = [name for name in names if not _is_between(name, from_offset, until_offset)]
        return sorted({*kept, *(str(name).removesuffix(SWAP) for name in swapped)})

    def make_directory(self, path: str) -> None:
        self._inner.make_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._inner.rename(source, target)

    def remove(self, path: str) -> None:
        self._inner.remove(path)

    def remove_tree(self, path: str) -> None:
        self._inner.remove_tree(path)

    def sync_directory(self, path: str) -> None:
        self._inner.sync_directory(path)

    def free_bytes(self, path: str) -> int:
        return self._inner.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        return self._inner.total_bytes(path)

    def _is_swapped(self, path: str) -> bool:
        if not self._inner.exists(path + SWAP):
            return False
        directory, _, name = path.rpartition("/")
        return name + SWAP in map(str, _valid_swaps(self._inner.list_directory(directory)))

    def _next_offset(self, directory: str, base_offset: int) -> int:
        file = self.open(segment_path(directory, base_offset, LOG), writable=False)
        try:
            next_offset = base_offset
            for _, header in walk_headers(file, position=0, until_position=file.size_bytes(), min_offset=base_offset):
                next_offset = header.next_offset
            return next_offset
        finally:
            file.close()


def _valid_swaps(names: list[str]) -> list[SegmentFileName]:
    leftovers = FolderListing.of(names).leftovers
    lowest_cleaned = min((name.base_offset for name in leftovers if name.suffix == CLEANED), default=None)
    return [
        name
        for name in leftovers
        if name.suffix == SWAP and (lowest_cleaned is None or name.base_offset < lowest_cleaned)
    ]


def _is_between(name: str, from_offset: int, until_offset: int) -> bool:
    parsed = parse_name(name)
    return parsed is not None and not parsed.suffix and from_offset <= parsed.base_offset < until_offset
