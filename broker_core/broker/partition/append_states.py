"""States of a replica's append queue, and which may follow which.

IDLE ── queued, and the loop writes by itself ──► TURN_AWAITED ── the turn ends ──► IDLE
IDLE ── the node's appends hold too much memory ──► MEMORY_AWAITED ── there is room ──► IDLE
IDLE ── a job writes the group, or makes a change ──► IN_JOB ── done, or refused ──► IDLE
IDLE ── the loop writes the group ──► WRITTEN ── published, or refused ──► IDLE
                                         └── the sync is refused ──► ROLLING_BACK ──► IDLE
"""

from __future__ import annotations

import enum
from typing import Final


class AppendState(enum.Enum):
    """What is queued meanwhile stays queued in every state but IDLE."""

    IDLE = "idle"
    """Nothing is under way. What is queued is begun with: at once in a job, or at the end of the loop's turn."""

    TURN_AWAITED = "turn awaited"
    """The loop writes by itself, and what else comes in this turn belongs to the same group. Next: IDLE."""

    MEMORY_AWAITED = "memory awaited"
    """The first group is larger than what appends of this node may still hold while they are written. Next: IDLE."""

    IN_JOB = "in job"
    """A job writes one group, or makes one other change. Next: IDLE, whatever comes of it."""

    WRITTEN = "written"
    """The loop wrote one group and holds the partition. A thread syncs it, or the loop publishes it now. Next: IDLE, or
    ROLLING_BACK when the sync was refused."""

    ROLLING_BACK = "rolling back"
    """A thread removes what was written from the log, and releases the partition. Next: IDLE."""


VALID_PREDECESSORS: Final[dict[AppendState, frozenset[AppendState]]] = {
    AppendState.IDLE: frozenset(AppendState) - {AppendState.IDLE},
    AppendState.TURN_AWAITED: frozenset({AppendState.IDLE}),
    AppendState.MEMORY_AWAITED: frozenset({AppendState.IDLE}),
    AppendState.IN_JOB: frozenset({AppendState.IDLE}),
    AppendState.WRITTEN: frozenset({AppendState.IDLE}),
    AppendState.ROLLING_BACK: frozenset({AppendState.WRITTEN}),
}

UNDER_WAY: Final = frozenset({AppendState.IN_JOB, AppendState.WRITTEN, AppendState.ROLLING_BACK})
"""Something of the queue was taken and has no answer yet."""


def assert_may_follow(target: AppendState, state: AppendState) -> None:
    """Asserts that the table has the transition."""
    assert state in VALID_PREDECESSORS[target], f"append queue: {target.value} cannot follow {state.value}"
