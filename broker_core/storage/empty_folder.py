"""The folder of a partition that could not be created, for readers: a folder without files.

A topic exists as soon as the metadata log has it. If the disk was full then, its partitions have no folders, and no
records: a reader needs to know no more, and must not fail until there is room.
"""

from __future__ import annotations

from errno import ENOENT, EROFS

from broker_core.ports import File, FileStat


class EmptyFolder:
    """A `FileSystem` where every folder is empty and nothing can be written."""

    def open(self, path: str, *, writable: bool, create: bool = False) -> File:
        if writable or create:
            raise _read_only(path)
        raise FileNotFoundError(ENOENT, "No such file", path)

    def exists(self, path: str) -> bool:
        """Of a folder."""
        return True

    def stat(self, path: str) -> FileStat | None:
        return None

    def list_directory(self, path: str) -> list[str]:
        return []

    def make_directory(self, path: str) -> None:
        raise _read_only(path)

    def rename(self, source: str, target: str) -> None:
        raise _read_only(target)

    def remove(self, path: str) -> None:
        raise _read_only(path)

    def remove_tree(self, path: str) -> None:
        raise _read_only(path)

    def sync_directory(self, path: str) -> None:
        raise _read_only(path)

    def free_bytes(self, path: str) -> int:
        return 0

    def total_bytes(self, path: str) -> int:
        return 0


def _read_only(path: str) -> OSError:
    return OSError(EROFS, "The folder does not exist yet", path)
