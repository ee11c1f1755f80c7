"""Hides records of aborted transactions, the way Kafka's read-committed consumer does.

A fetch answer names aborted transactions by producer and first offset. From there on the producer's transactional
batches are hidden, until its abort marker follows in the log. One filter serves one reader of one partition across
fetches, so it keeps only transactions that are ahead or open.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from broker_core.cluster import AbortedTransaction


class AbortedFilter:
    """State of one sequential read. `add` before decoding each fetched buffer; batches must come in offset order.

    The next fetch may name a transaction again, even if its marker has already passed. Ended transactions are
    remembered until the next but one `add`, so memory is bounded by the lists of two answers.
    """

    def __init__(self, transactions: Iterable[AbortedTransaction] = ()) -> None:
        self._ahead: list[tuple[int, int]] = []
        self._open: dict[int, int] = {}
        self._ended: dict[int, int] = {}
        self._ended_before: dict[int, int] = {}
        self.add(transactions)

    def add(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Adds the aborted transactions of the buffer that is decoded next."""
        self._ended_before, self._ended = self._ended, {}
        known = set(self._ahead)
        for transaction in transactions:
            entry = (transaction.first_offset, transaction.producer_id)
            if entry not in known and not self._is_behind(transaction):
                known.add(entry)
                heapq.heappush(self._ahead, entry)

    def is_hidden(self, producer_id: int, last_offset: int) -> bool:
        """Whether to hide the transactional batch of this producer that ends at `last_offset`.

        Call this, or `on_abort_marker`, for the batches of all producers in log order.
        """
        self._advance(last_offset)
        return producer_id in self._open

    def on_abort_marker(self, producer_id: int, offset: int) -> None:
        """The producer's abort marker is at `offset`: its batches from there on are shown again."""
        self._advance(offset)
        first_offset = self._open.pop(producer_id, None)
        if first_offset is not None:
            self._ended[producer_id] = first_offset

    def copy(self) -> AbortedFilter:
        """A copy of the state, to continue from here a second time."""
        twin = AbortedFilter()
        twin.restore(self)
        return twin

    def restore(self, other: AbortedFilter) -> None:
        """Sets the state to that of `other`."""
        self._ahead = list(other._ahead)
        self._open = dict(other._open)
        self._ended = dict(other._ended)
        self._ended_before = dict(other._ended_before)

    def _advance(self, last_offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= last_offset:
            first_offset, producer_id = heapq.heappop(self._ahead)
            self._open[producer_id] = first_offset

    def _is_behind(self, transaction: AbortedTransaction) -> bool:
        return any(
            transaction.first_offset <= passed.get(transaction.producer_id, -1)
            for passed in (self._open, self._ended, self._ended_before)
        )
