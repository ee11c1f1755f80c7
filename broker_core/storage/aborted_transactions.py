"""The aborted transactions that a read-committed reader needs, found in the batches themselves.

A transaction index does not show whether it is complete. It is written (for Kafka) and verified, but not used here: a
lost entry would show aborted records as committed. Instead, the reader follows the transactional batches that it
fetched. If the end of a transaction is not among them, it walks on to the transaction's marker. Below the last stable
offset every transaction has one. The end of a walk is remembered, so reading a long log from front to back adds only
one walk over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from broker_core.cluster import AbortedTransaction
from broker_core.log.batch_validation import read_marker
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


class AbortedTransactionLookup:
    """For one partition. Caches decisions, which never change until the log is truncated."""

    def __init__(self) -> None:
        self._decisions: dict[int, _Decision] = {}

    def forget(self) -> None:
        """Call this when the set of segments changed."""
        self._decisions.clear()

    def find(self, run: BatchRun, start: WalkStart) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions with records among the batches of `run`, ordered by first offset. Their first offset
        is that of the first batch in `run`."""
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
        reached = start.offset
        for producer_id, offset, is_aborted in _markers(start):
            reached = offset
            if producer_id in undecided:
                undecided.discard(producer_id)
                self._decisions[producer_id] = _Decision(
                    from_offset=start.offset, until_offset=offset, is_aborted=is_aborted
                )
                if not undecided:
                    return
        for producer_id in undecided:
            # Compaction drops a marker only when no batch of its transaction is left.
            self._decisions[producer_id] = _Decision(from_offset=start.offset, until_offset=reached, is_aborted=False)


def _markers(start: WalkStart) -> Iterator[tuple[int, int, bool]]:
    """(producer id, offset, whether it aborts) of every marker from the start on, to the end of the log."""
    position, offset = start.position, start.offset
    for segment, extent in start.segments():
        while position < extent.end_position:
            run = segment.skim(position, extent, base_offset=offset, max_bytes=_WALK_BYTES)
            attributes = run.table.column(Cell.ATTRIBUTES).tolist()
            for row in range(run.count):
                if attributes[row] & CONTROL_BIT and attributes[row] & TRANSACTIONAL_BIT:
                    header = run.table.header(row)
                    marker = read_marker(run.buffer, run.table.position(row), header)
                    if marker is not None:
                        yield header.producer_id, header.base_offset, not marker.is_commit
            position, offset = run.next_position, run.next_offset
        segment.check_end(offset, extent)
        position, offset = 0, extent.next_offset
