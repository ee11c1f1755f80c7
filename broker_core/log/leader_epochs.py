"""The leader epochs of a partition and their start offsets: its `leader-epoch-checkpoint`.

Text: a line `0` (version), a line with the number of entries, then one `epoch start_offset` per line, both ascending. A
missing file is an empty table. A follower that reconnects requests the end of an epoch and truncates to it (KIP-101,
KIP-279); a log that always has the same leader has the single line `0 0`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from broker_core.model.exceptions import CorruptDataError
from broker_core.model.identifiers import NO_LEADER_EPOCH

UNDEFINED_OFFSET = -1

_VERSION = "0"
_LINE = re.compile(r"[0-9]{1,10} [0-9]{1,19}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEntry:
    """The leader of `leader_epoch` wrote from `start_offset` on."""

    leader_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnd:
    """The newest epoch at or below the requested one, and the offset after its last record. (-1, -1): unknown."""

    leader_epoch: int
    end_offset: int


class LeaderEpochs:
    """The table. Methods that change it return whether they did, so that the caller writes the checkpoint only then."""

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries = list(entries)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        return self._entries[-1].leader_epoch if self._entries else NO_LEADER_EPOCH

    def assign(self, leader_epoch: int, start_offset: int) -> bool:
        """Adds a batch of this epoch at this offset. Removes entries that contradict it (same or later)."""
        if self._entries and self._entries[-1].leader_epoch == leader_epoch:
            return False
        kept = [e for e in self._entries if e.leader_epoch < leader_epoch and e.start_offset < start_offset]
        self._entries = [*kept, EpochEntry(leader_epoch=leader_epoch, start_offset=start_offset)]
        return True

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote `offset`, -1 when it is before the table."""
        slot = bisect_right(self._entries, offset, key=_start_offset) - 1
        return self._entries[slot].leader_epoch if slot >= 0 else NO_LEADER_EPOCH

    def end_of(self, leader_epoch: int, *, log_end_offset: int) -> EpochEnd:
        """The end of the epoch, as OffsetForLeaderEpoch answers: of the newest known epoch at or below the requested
        one.

        The latest epoch ends at the log's end. An epoch above the latest, or -1, is unknown: (-1, -1). For an epoch
        below the table's first, the answer is the first one's start.
        """
        if leader_epoch == NO_LEADER_EPOCH or not self._entries or leader_epoch > self.latest_epoch:
            return EpochEnd(leader_epoch=NO_LEADER_EPOCH, end_offset=UNDEFINED_OFFSET)
        if leader_epoch == self.latest_epoch:
            return EpochEnd(leader_epoch=leader_epoch, end_offset=log_end_offset)
        slot = bisect_right(self._entries, leader_epoch, key=_leader_epoch)
        end_offset = self._entries[slot].start_offset
        return EpochEnd(
            leader_epoch=self._entries[slot - 1].leader_epoch if slot else leader_epoch, end_offset=end_offset
        )

    def truncate_from_end(self, end_offset: int) -> bool:
        """Cuts the table to a log that ends at `end_offset`."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        changed = len(kept) != len(self._entries)
        self._entries = kept
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Cuts the table to a log that starts at `start_offset`; the epoch of this offset then starts there."""
        slot = bisect_right(self._entries, start_offset, key=_start_offset) - 1
        if slot < 0 or (slot == 0 and self._entries[0].start_offset == start_offset):
            return False
        first = EpochEntry(leader_epoch=self._entries[slot].leader_epoch, start_offset=start_offset)
        self._entries = [first, *self._entries[slot + 1 :]]
        return True

    def encode(self) -> str:
        """The checkpoint's text."""
        lines = [f"{entry.leader_epoch} {entry.start_offset}\n" for entry in self._entries]
        return f"{_VERSION}\n{len(lines)}\n{''.join(lines)}"

    @classmethod
    def decode(cls, text: str) -> LeaderEpochs:
        """Raises CorruptDataError; the caller then derives the table from batch headers."""
        lines = text.splitlines()
        if len(lines) < 2 or lines[0] != _VERSION or lines[1] != str(len(lines) - 2):
            raise CorruptDataError("leader-epoch-checkpoint: the version or the number of entries is wrong")
        entries: list[EpochEntry] = []
        for line in lines[2:]:
            if not _LINE.fullmatch(line):
                raise CorruptDataError(f"leader-epoch-checkpoint: {line!r} is not a pair of epoch and offset")
            epoch, offset = map(int, line.split())
            if entries and (epoch <= entries[-1].leader_epoch or offset <= entries[-1].start_offset):
                raise CorruptDataError(f"leader-epoch-checkpoint: {line!r} is not in ascending order")
            entries.append(EpochEntry(leader_epoch=epoch, start_offset=offset))
        return cls(entries)


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset


def _leader_epoch(entry: EpochEntry) -> int:
    return entry.leader_epoch
