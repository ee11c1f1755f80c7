"""Follows transactions while compaction reads a log: which batches were aborted, which markers may be removed.

A marker is kept if this pass read a batch of its transaction, kept or removed. Only a pass that reads the marker
alone may remove it, and not before its delete horizon.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker_core.log.transaction_index import AbortedTransactionEntry
from broker_core.record.batch_header import BatchHeader
from broker_core.record.control_records import EndTransactionMarker


@dataclass(slots=True)
class _AbortedTransaction:
    entry: AbortedTransactionEntry
    has_batches: bool = False


class CleanedTransactions:
    """`aborted`: the transactions that overlap the next batches. Pass every batch to `on_data` or `on_control`, in
    order."""

    def __init__(self, aborted: Iterable[AbortedTransactionEntry]) -> None:
        self._coming = sorted(aborted, key=_first_offset, reverse=True)
        self._aborted: dict[int, _AbortedTransaction] = {}
        self._committed: set[int] = set()
        self._retained: list[AbortedTransactionEntry] = []

    def on_data(self, header: BatchHeader) -> bool:
        """Whether the batch belongs to an aborted transaction: then its records can be removed."""
        self._begin_until(header)
        if not header.is_transactional:
            return False
        aborted = self._aborted_at(header)
        if aborted is None:
            self._committed.add(header.producer_id)
            return False
        aborted.has_batches = True
        return True

    def on_control(self, header: BatchHeader, marker: EndTransactionMarker | None) -> bool:
        """Whether no batch of the marker's transaction is left. `marker` None: emptied earlier, or not a marker."""
        self._begin_until(header)
        if marker is None:
            return header.record_count == 0
        if marker.is_commit:
            had_batches = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not had_batches
        aborted = self._aborted_at(header)
        self._aborted.pop(header.producer_id, None)
        if aborted is None or not aborted.has_batches:
            return True
        self._retained.append(aborted.entry)
        return False

    def take_retained(self) -> tuple[AbortedTransactionEntry, ...]:
        """Aborted transactions whose markers were read and kept since the last call."""
        retained, self._retained = tuple(self._retained), []
        return retained

    def _begin_until(self, header: BatchHeader) -> None:
        while self._coming and self._coming[-1].first_offset <= header.last_offset:
            entry = self._coming.pop()
            # Reading may begin in the middle of a log: transactions that ended before have no further batches.
            if entry.last_offset >= header.base_offset:
                self._aborted[entry.producer_id] = _AbortedTransaction(entry)

    def _aborted_at(self, header: BatchHeader) -> _AbortedTransaction | None:
        """The producer's aborted transaction that contains the batch."""
        aborted = self._aborted.get(header.producer_id)
        return aborted if aborted is not None and aborted.entry.last_offset >= header.base_offset else None


def _first_offset(entry: AbortedTransactionEntry) -> int:
    return entry.first_offset
