"""The aborted transactions of a segment: its .txnindex file.

34 bytes per entry, big-endian: int16 version 0, int64 producer id, int64 first offset, int64 last offset (the abort
marker), int64 last stable offset at that time. Entries are in the segment that holds the marker, ordered by last
offset. The file exists only once there is an entry. A read-committed fetch returns the aborted transactions that
overlap its records; since a transaction may end in a later segment than it began in, later segments are searched until
one shows that the rest cannot overlap the range.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from typing_extensions import Buffer

from broker_core.log.sparse_index import IndexCheck
from broker_core.model.exceptions import UnsupportedFormatError

TRANSACTION_INDEX_ENTRY_BYTES = 34

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransactionEntry:
    """One aborted transaction: its first record, its marker, and the last stable offset right after the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedTransactions:
    """`is_complete`: later segments hold nothing for the range."""

    entries: tuple[AbortedTransactionEntry, ...]
    is_complete: bool


def encode_transaction_entry(entry: AbortedTransactionEntry) -> bytes:
    return _ENTRY.pack(_VERSION, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)


class TransactionIndex:
    """Read side of a .txnindex file; empty bytes for a segment without one."""

    def __init__(self, entries: Buffer, *, entry_count: int | None = None) -> None:
        self._entries = memoryview(entries)
        self.entry_count = len(self._entries) // TRANSACTION_INDEX_ENTRY_BYTES if entry_count is None else entry_count

    def entry(self, slot: int) -> AbortedTransactionEntry:
        """Raises UnsupportedFormatError for a version other than 0."""
        version, producer_id, first, last, stable = _ENTRY.unpack_from(
            self._entries, slot * TRANSACTION_INDEX_ENTRY_BYTES
        )
        if version != _VERSION:
            raise UnsupportedFormatError(
                f"transaction index entry {slot} has version {version}, supported is {_VERSION}"
            )
        return AbortedTransactionEntry(
            producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=stable
        )

    def __iter__(self) -> Iterator[AbortedTransactionEntry]:
        return (self.entry(slot) for slot in range(self.entry_count))

    def slots_until(self, offset: int) -> int:
        """The number of entries that end below `offset`, which truncating the log to `offset` keeps."""
        low, high = 0, self.entry_count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle).last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def collect(self, *, from_offset: int, until_offset: int) -> CollectedTransactions:
        """Transactions that overlap [from_offset, until_offset)."""
        found: list[AbortedTransactionEntry] = []
        for slot in range(self.slots_until(from_offset), self.entry_count):
            entry = self.entry(slot)
            if entry.first_offset < until_offset:
                found.append(entry)
            if entry.last_stable_offset >= until_offset:
                # All transactions that end later also began at or after this last stable offset, so after the range.
                return CollectedTransactions(entries=tuple(found), is_complete=True)
        return CollectedTransactions(entries=tuple(found), is_complete=False)

    @staticmethod
    def check(entries: Buffer, *, base_offset: int, next_offset: int) -> IndexCheck:
        """Checks a .txnindex file against its segment: known version, ordered, markers inside the segment."""
        index = TransactionIndex(entries)
        last_offset = base_offset - 1
        for slot in range(index.entry_count):
            try:
                entry = index.entry(slot)
            except UnsupportedFormatError as error:
                return IndexCheck(entry_count=slot, problem=str(error))
            if entry.last_offset <= last_offset or not 0 <= entry.first_offset <= entry.last_offset:
                return IndexCheck(entry_count=slot, problem=f"entry {slot} is not in ascending order")
            if entry.last_offset >= next_offset:
                return IndexCheck(entry_count=slot, problem=f"entry {slot} points past the end of the segment")
            last_offset = entry.last_offset
        rest = len(memoryview(entries)) % TRANSACTION_INDEX_ENTRY_BYTES
        problem = f"{rest} bytes after entry {index.entry_count} are not a whole entry" if rest else None
        return IndexCheck(entry_count=index.entry_count, problem=problem)
