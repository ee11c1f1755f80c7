"""A log as a Python list, with which every other log is compared.

It knows no segments, indexes, locks or bytes. What it cannot know (which segments retention takes, how far compaction
came) it is told, and it checks that it was allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

WINDOW = 5
OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Content:
    """What a writer hands over."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Row:
    """What a reader is to see."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(slots=True)
class Transaction:
    producer_id: int
    first_offset: int
    state: str = OPEN


@dataclass(frozen=True, slots=True)
class PlainEntry:
    """One offset of the log: a row, or a marker (no reader sees it)."""

    row: Row | None
    offset: int
    timestamp_ms: int
    batch_offset: int
    transaction: Transaction | None = None


@dataclass(slots=True)
class PlainProducer:
    epoch: int
    next_sequence: int = 0
    recent: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(first sequence, last sequence, base offset, last offset) of the last five batches."""


class PlainLog:
    def __init__(self) -> None:
        self.entries: list[PlainEntry] = []
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.open: dict[int, Transaction] = {}
        self.ended: list[tuple[int, int]] = []
        """(first offset, offset of the marker) of transactions."""
        self.producers: dict[int, PlainProducer] = {}

    # -- writing --
    def append(
        self,
        records: Iterable[Content],
        *,
        log_append_time_ms: int | None = None,
        producer: tuple[int, int, int] | None = None,
        is_transactional: bool = False,
    ) -> tuple[int, int]:
        """One batch; gives its first and last offset. `producer`: (id, epoch, first sequence), taken as it is."""
        base_offset = self.log_end_offset
        transaction = None
        if is_transactional:
            assert producer is not None
            transaction = self.open.setdefault(producer[0], Transaction(producer[0], base_offset))
        for content in records:
            time_ms = content.timestamp_ms if log_append_time_ms is None else log_append_time_ms
            kind = 0 if log_append_time_ms is None else 1
            row = Row(self.log_end_offset, time_ms, kind, content.key, content.value, content.headers)
            self.entries.append(PlainEntry(row, row.offset, time_ms, base_offset, transaction))
            self.log_end_offset += 1
        last_offset = self.log_end_offset - 1
        if producer is not None:
            self._remember(producer, base_offset, last_offset)
        return base_offset, last_offset

    def _remember(self, producer: tuple[int, int, int], base_offset: int, last_offset: int) -> None:
        producer_id, epoch, first_sequence = producer
        known = self.producers.get(producer_id)
        if known is None or known.epoch != epoch:
            known = self.producers[producer_id] = PlainProducer(epoch)
        last_sequence = first_sequence + last_offset - base_offset
        known.recent = [*known.recent, (first_sequence, last_sequence, base_offset, last_offset)][-WINDOW:]
        known.next_sequence = last_sequence + 1

    def end_transaction(self, producer_id: int, *, commit: bool, timestamp_ms: int) -> int:
        """Appends the marker; gives its offset."""
        offset = self.log_end_offset
        transaction = self.open.pop(producer_id)
        transaction.state = COMMITTED if commit else ABORTED
        self.ended.append((transaction.first_offset, offset))
        self.entries.append(PlainEntry(None, offset, timestamp_ms, offset))
        self.log_end_offset += 1
        return offset

    # -- what is removed --
    def start_at(self, offset: int) -> None:
        self.log_start_offset = max(self.log_start_offset, offset)
        self.entries = [e for e in self.entries if e.offset >= self.log_start_offset]

    def batch_start(self, offset: int) -> int:
        """The first offset of the batch that holds `offset`."""
        return next((e.batch_offset for e in self.entries if e.offset == offset), offset)

    def can_truncate_to(self, offset: int) -> bool:
        """Not between a transaction's first record and its marker: what becomes of it then is no matter of a list."""
        return all(not first < offset <= marker for first, marker in self.ended)

    def truncate_to(self, offset: int) -> None:
        self.entries = [e for e in self.entries if e.offset < offset]
        self.log_end_offset = min(self.log_end_offset, offset)
        self.open = {i: t for i, t in self.open.items() if t.first_offset < offset}
        self.ended = [(first, marker) for first, marker in self.ended if marker < offset]
        for producer_id, producer in list(self.producers.items()):
            producer.recent = [batch for batch in producer.recent if batch[3] < offset]
            if producer.recent:
                producer.next_sequence = producer.recent[-1][1] + 1
            else:
                del self.producers[producer_id]

    def compacted(self, survivors: set[int], *, until_offset: int) -> None:
        """Compaction left `survivors` of the rows below `until_offset`: was each lost row one that may go?"""
        newest = self._newest_by_key(until_offset)
        for entry in self.entries:
            row = entry.row
            if row is None or row.offset in survivors:
                continue
            aborted = entry.transaction is not None and entry.transaction.state == ABORTED
            tombstone = row.value is None
            overtaken = newest.get(row.key, -1) > row.offset
            assert row.offset < until_offset, f"compaction took {row}, at or above {until_offset}"
            assert aborted or tombstone or overtaken, f"compaction lost {row}, the newest of its key"
        self.entries = [e for e in self.entries if e.row is None or e.offset in survivors]

    def must_be_compacted(self, survivors: set[int], *, until_offset: int) -> None:
        """A whole pass went up to `until_offset`: nothing may be left there that a newer record overtook."""
        newest = self._newest_by_key(until_offset)
        for entry in self.entries:
            row = entry.row
            if row is None or row.offset >= until_offset or row.offset not in survivors:
                continue
            assert newest.get(row.key) == row.offset, f"compaction kept {row}, overtaken by {newest.get(row.key)}"

    def _newest_by_key(self, until_offset: int) -> dict[bytes | None, int]:
        return {
            e.row.key: e.offset
            for e in self.entries
            if e.row is not None
            and e.offset < until_offset
            and (e.transaction is None or e.transaction.state != ABORTED)
        }

    # -- reading --
    @property
    def last_stable_offset(self) -> int:
        return max(
            self.log_start_offset, min((t.first_offset for t in self.open.values()), default=self.log_end_offset)
        )

    def rows(self, *, committed_only: bool = False, from_offset: int = 0) -> list[Row]:
        if not committed_only:
            return [e.row for e in self.entries if e.row is not None and e.offset >= from_offset]
        return [
            e.row
            for e in self.entries
            if e.row is not None
            and from_offset <= e.offset < self.last_stable_offset
            and (e.transaction is None or e.transaction.state == COMMITTED)
        ]

    def answers_for_timestamp(self, timestamp_ms: int) -> set[tuple[int, int] | None]:
        """(offset, timestamp) of the first entry with that timestamp or a later one. No consumer sees markers, yet they
        have timestamps: an answer may stop at one or pass over it."""
        return self._first(timestamp_ms)

    def answers_for_max_timestamp(self) -> set[tuple[int, int] | None]:
        rows = [e.timestamp_ms for e in self.entries if e.row is not None]
        return self._first(max((e.timestamp_ms for e in self.entries), default=0)) | self._first(max(rows, default=0))

    def _first(self, timestamp_ms: int) -> set[tuple[int, int] | None]:
        found = [e for e in self.entries if e.timestamp_ms >= timestamp_ms]
        data = [e for e in found if e.row is not None]
        return {(e[0].offset, e[0].timestamp_ms) if e else None for e in (found, data)}
