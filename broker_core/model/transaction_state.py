"""The states of a transactional id, with Kafka's names and the numbers that its records carry."""

from __future__ import annotations

import enum


class TransactionState(enum.IntEnum):
    """The number stands in the value of a `__transaction_state` record; `label` is what Kafka's tools show."""

    EMPTY = 0
    """No transaction: the id was initialised, or its last transaction is long over."""
    ONGOING = 1
    """Partitions were added; the producer writes."""
    PREPARE_COMMIT = 2
    """Decided, and final: the markers are being written."""
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    """All markers are written."""
    COMPLETE_ABORT = 5
    DEAD = 6
    """The id is being forgotten."""
    PREPARE_EPOCH_FENCE = 7
    """Never in a record: a newer producer takes over and the open transaction is about to be aborted."""

    @property
    def label(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))
