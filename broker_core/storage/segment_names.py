"""Names of a partition's files, as in Kafka: a base offset of twenty digits, a kind, and sometimes a suffix.

00000000000000000042.log           a segment's batches; .index .timeindex .txnindex beside it
00000000000000000042.snapshot      producers before offset 42
00000000000000000042.keyfilter     ours: which keys a segment that no longer grows may hold
*.deleted                          to be removed
*.cleaned                          a compaction is writing it; incomplete after a crash
*.swap                             compacted and whole; after a crash the swap is finished, not undone
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

LOG = "log"
OFFSET_INDEX = "index"
TIME_INDEX = "timeindex"
TRANSACTION_INDEX = "txnindex"
SNAPSHOT = "snapshot"
KEY_FILTER = "keyfilter"
INDEX_KINDS = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
SEGMENT_KINDS = (*INDEX_KINDS, LOG)
"""The .log comes last: its state decides how an operation on all files of a segment continues after a crash."""
_KINDS = (*SEGMENT_KINDS, SNAPSHOT, KEY_FILTER)

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

_NAME = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex|snapshot|keyfilter)(\.deleted|\.cleaned|\.swap|)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFileName:
    """A parsed file name. `suffix` is empty for a file in use."""

    base_offset: int
    kind: str
    suffix: str

    def __str__(self) -> str:
        return f"{self.base_offset:020d}.{self.kind}{self.suffix}"


def segment_path(directory: str, base_offset: int, kind: str, suffix: str = "") -> str:
    """The full path of one file of a segment."""
    return f"{directory}/{base_offset:020d}.{kind}{suffix}"


def parse_name(name: str) -> SegmentFileName | None:
    """None for a file that belongs to no segment."""
    found = _NAME.match(name)
    return None if found is None else _taken_apart(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderListing:
    """The files of a partition's folder: ascending base offsets for each kind of file in use, the leftovers, and the
    names of files that belong to no segment."""

    logs: tuple[int, ...]
    offset_indexes: frozenset[int]
    time_indexes: frozenset[int]
    transaction_indexes: frozenset[int]
    snapshots: tuple[int, ...]
    key_filters: frozenset[int]
    leftovers: tuple[SegmentFileName, ...]
    others: frozenset[str]

    @classmethod
    def of(cls, names: Iterable[str]) -> FolderListing:
        in_use: dict[str, list[int]] = {kind: [] for kind in _KINDS}
        leftovers: list[SegmentFileName] = []
        others: list[str] = []
        for name in names:
            found = _NAME.match(name)
            if found is None:
                others.append(name)
            elif found[3]:
                leftovers.append(_taken_apart(found))
            else:
                in_use[found[2]].append(int(found[1]))
        return cls(
            logs=tuple(sorted(in_use[LOG])),
            offset_indexes=frozenset(in_use[OFFSET_INDEX]),
            time_indexes=frozenset(in_use[TIME_INDEX]),
            transaction_indexes=frozenset(in_use[TRANSACTION_INDEX]),
            snapshots=tuple(sorted(in_use[SNAPSHOT])),
            key_filters=frozenset(in_use[KEY_FILTER]),
            leftovers=tuple(leftovers),
            others=frozenset(others),
        )

    def has_index(self, base_offset: int, kind: str) -> bool:
        """Whether the segment has an index file of this kind."""
        if kind == OFFSET_INDEX:
            return base_offset in self.offset_indexes
        return base_offset in (self.time_indexes if kind == TIME_INDEX else self.transaction_indexes)


def _taken_apart(found: re.Match[str]) -> SegmentFileName:
    return SegmentFileName(base_offset=int(found[1]), kind=found[2], suffix=found[3])
