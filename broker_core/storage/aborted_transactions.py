"""The aborted transactions that a read-committed reader needs, found in the batches themselves.

A transaction index does not show whether it is complete. It is written (for Kafka) and verified, but not used here: a
lost entry would show aborted records as committed. Instead, the reader follows the transactional batches that it
fetched. If the end of a transaction is not among them, it walks on to the transaction's marker. Below the last stable
offset every transaction has one. The end of a walk is remembered, so reading a long log from front to back adds only
one walk over it.

A damaged batch ends the walk, since it may have been the marker. Then the index decides, as it always does in Kafka, so
that everything before the damage stays readable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from broker_core.cluster import AbortedTransaction
from broker_core.log.batch_validation import read_marker
from broker_core.log.transaction_index import AbortedTransactionEntry
from broker_core.model.exceptions import CorruptDataError
from broker_core.record.batch_header import CONTROL_BIT, TRANSACTIONAL_BIT
from broker_core.record.kernel_protocol import Cell
from broker_core.storage.segment_files import BatchRun, SegmentFiles
from broker_core.storage.segment_indexes import SegmentExtent

_WALK_BYTES = 64 * 1024
"""Size of one read of a walk. Larger batches are skipped; a marker is never that large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkStart:
    """Where the fetched batches end: a position in the first of `segments`. A walk opens them when it reaches them."""

    position: int
    offset: int
    segments: Callable[[], Iterator[tuple[SegmentFiles, SegmentExtent]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    """The producer's first marker at or after `from_offset` is at `until_offset`."""

    from_offset: int
    until_offset: int
    is_aborted: bool


class _DamagedLog(Exception):
    """The walk cannot go on at `offset`, where the last valid batch ends; `__cause__` says why."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class AbortedTransactionLookup:
    """For one partition. Caches decisions, which never change until the log is truncated."""

    def __init__(self) -> None:
        self._decisions: dict[int, _Decision] = {}
        self._suspected_damage: str | None = None

    def forget(self) -> None:
        """Call this when the set of segments changed."""
        self._decisions.clear()

    def find(self, run: BatchRun, start: WalkStart) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions with records among the batches of `run`, ordered by first offset. Their first offset
        is that of the first batch in `run`.

        Raises CorruptDataError the first time that it meets damage behind the run: it may be a file that was replaced
        meanwhile, so call it again with the files opened anew."""
        aborted: list[AbortedTransaction] = []
        opened = self._follow(run, aborted)
        if opened:
            self._decide(opened, start)
            aborted += (
                AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for producer_id, first_offset in opened.items()
                if self._decisions[producer_id].is_aborted
            )
        return tuple(sorted(aborted, key=lambda transaction: transaction.first_offset))

    def _follow(self, run: BatchRun, aborted: list[AbortedTransaction]) -> dict[int, int]:
        """Adds the transactions that were aborted inside the run. Returns those still open at its end, by producer."""
        opened: dict[int, int] = {}
        rows = zip(
            run.table.column(Cell.ATTRIBUTES).tolist()[: run.count],
            run.table.column(Cell.PRODUCER_ID).tolist(),
            run.table.column(Cell.BASE_OFFSET).tolist(),
            run.table.column(Cell.RECORD_COUNT).tolist(),
            strict=False,
        )
        for row, (attributes, producer_id, base_offset, record_count) in enumerate(rows):
            if not attributes & TRANSACTIONAL_BIT:
                continue
            if not attributes & CONTROL_BIT:
                if record_count:
                    opened.setdefault(producer_id, base_offset)
                continue
            marker = read_marker(run.buffer, run.table.position(row), run.table.header(row))
            if marker is not None:
                first_offset = opened.pop(producer_id, None)
                if first_offset is not None and not marker.is_commit:
                    aborted.append(AbortedTransaction(producer_id=producer_id, first_offset=first_offset))
        return opened

    def _decide(self, opened: dict[int, int], start: WalkStart) -> None:
        """Finds the next marker of each producer after the run."""
        undecided = set()
        for producer_id in opened:
            known = self._decisions.get(producer_id)
            if known is None or not known.from_offset <= start.offset <= known.until_offset:
                undecided.add(producer_id)
        if not undecided:
            return
        reached, aborted = start.offset, set[int]()
        try:
            for producer_id, offset, is_aborted in _markers(start):
                reached = offset
                if producer_id in undecided:
                    undecided.discard(producer_id)
                    self._decisions[producer_id] = _Decision(
                        from_offset=start.offset, until_offset=offset, is_aborted=is_aborted
                    )
                    if not undecided:
                        return
        except _DamagedLog as damaged:
            if str(damaged.__cause__) != self._suspected_damage:
                self._suspected_damage = str(damaged.__cause__)
                raise damaged.__cause__ or damaged from None
            reached = damaged.offset
            aborted = _aborted_by_index(undecided, opened, start, damaged)
        for producer_id in undecided:
            # Compaction drops a marker only when no batch of its transaction is left.
            self._decisions[producer_id] = _Decision(
                from_offset=start.offset, until_offset=reached, is_aborted=producer_id in aborted
            )


def _aborted_by_index(
    producer_ids: set[int], opened: dict[int, int], start: WalkStart, damaged: _DamagedLog
) -> set[int]:
    """Those of the producers whose open transaction is aborted by a marker at or behind the damage. Raises
    CorruptDataError for what is wrong with the log if the index is damaged as well."""
    aborted: set[int] = set()
    for entry in _entries_from(damaged, start):
        # The first one of a producer may be of its next transaction, which began behind the run.
        if entry.producer_id in producer_ids and entry.first_offset <= opened[entry.producer_id]:
            aborted.add(entry.producer_id)
        if entry.last_stable_offset >= start.offset:
            break  # every transaction that ends later began behind the run
    return aborted


def _entries_from(damaged: _DamagedLog, start: WalkStart) -> Iterator[AbortedTransactionEntry]:
    for segment, extent in start.segments():
        if extent.next_offset <= damaged.offset:
            continue
        entries = segment.aborted_transactions(extent)
        if entries is None:
            raise damaged.__cause__ or damaged from None
        yield from (entry for entry in entries if entry.last_offset >= damaged.offset)


def _markers(start: WalkStart) -> Iterator[tuple[int, int, bool]]:
    """(producer id, offset, whether it aborts) of every marker from the start on, to the end of the log. Raises
    _DamagedLog."""
    position, offset = start.position, start.offset
    for segment, extent in start.segments():
        while position < extent.end_position:
            try:
                run = segment.skim(position, extent, base_offset=offset, max_bytes=_WALK_BYTES)
            except CorruptDataError as damage:
                raise _DamagedLog(offset) from damage
            attributes = run.table.column(Cell.ATTRIBUTES).tolist()
            for row in range(run.count):
                if attributes[row] & CONTROL_BIT and attributes[row] & TRANSACTIONAL_BIT:
                    header = run.table.header(row)
                    marker = read_marker(run.buffer, run.table.position(row), header)
                    if marker is not None:
                        yield header.producer_id, header.base_offset, not marker.is_commit
            position, offset = run.next_position, run.next_offset
        try:
            segment.check_end(offset, extent)
        except CorruptDataError as damage:
            raise _DamagedLog(offset) from damage
        position, offset = 0, extent.next_offset
