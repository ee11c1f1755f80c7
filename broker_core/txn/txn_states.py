"""The life of a transactional id: which state may follow which.

    Empty, CompleteCommit, CompleteAbort ── add partitions ──► Ongoing
    Ongoing ── commit ──► PrepareCommit ── all markers are written ──► CompleteCommit
    Ongoing ── abort, fence, timeout ──► PrepareAbort ── all markers are written ──► CompleteAbort
    Empty, CompleteCommit, CompleteAbort ── abort of nothing ──► PrepareAbort
    nothing known, Empty, CompleteCommit, CompleteAbort ── init ──► Empty

Empty and the two Complete states may become Dead: idle for too long, forgotten by a tombstone. PrepareEpochFence is
Kafka's name for the instant between fencing a producer and aborting what it left; here both are one record, so no id is
ever found in it.

Since transactions version 2 (KIP-890) a producer opens its transaction by writing, so it cannot know whether one is
open: it may abort where there is none, and every end bumps the producer epoch.
"""

from __future__ import annotations

from typing import Final

from broker_core.model.transaction_state import TransactionState

_CLOSED: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

VALID_PREDECESSORS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _CLOSED,
    TransactionState.ONGOING: _CLOSED | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _CLOSED | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _CLOSED,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""Kafka's `TransactionState.validPreviousStates`."""

PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""Decided; markers are still to be written."""

OPEN_OR_ENDING: Final = PREPARED | {TransactionState.ONGOING}

COMPLETION: Final = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}

COMMITS: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT})

NEVER_STORED: Final = frozenset({TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE})
"""These are never stored: forgetting is a tombstone, and fencing is stored as the state that follows it."""


def check_transition(current: TransactionState, target: TransactionState) -> None:
    """Asserts that `target` may follow `current`: invalid requests were refused before."""
    assert current in VALID_PREDECESSORS[target], f"{target.label} cannot follow {current.label}"
