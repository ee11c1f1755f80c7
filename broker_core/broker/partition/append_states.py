"""States of a replica's append queue, and their valid transitions.

IDLE ── the queue is not empty, and the loop writes ──► TURN_AWAITED ── the turn ends ──► IDLE
IDLE ── the node's append budget is used up ──► MEMORY_AWAITED ── bytes are free ──► IDLE
IDLE ── a job writes the group, or makes a change ──► IN_JOB ── done, or failed ──► IDLE
IDLE ── the loop writes the group ──► WRITTEN ── published, or failed ──► IDLE
                                         └── the sync fails ──► ROLLING_BACK ──► IDLE
"""

from __future__ import annotations

import enum
from typing import Final


class AppendState(enum.Enum):
    """In every state except IDLE, new appends and changes stay in the queue."""

    IDLE = "idle"
    """Nothing is under way. A new append or change starts: immediately in a job, or at the end of the loop's turn."""

    TURN_AWAITED = "turn awaited"
    """The loop writes at the end of its turn; appends that arrive until then join the group. Next: IDLE."""

    MEMORY_AWAITED = "memory awaited"
    """The first group is larger than the free bytes of the node's append budget. Next: IDLE."""

    IN_JOB = "in job"
    """A job writes one group, or makes one other change. Next: IDLE, also after an error."""

    WRITTEN = "written"
    """The loop wrote one group and holds the partition. A thread syncs it, or the loop publishes it now. Next: IDLE, or
    ROLLING_BACK if the sync fails."""

    ROLLING_BACK = "rolling back"
    """A thread removes the written group from the log, and releases the partition. Next: IDLE."""


VALID_PREDECESSORS: Final[dict[AppendState, frozenset[AppendState]]] = {
    AppendState.IDLE: frozenset(AppendState) - {AppendState.IDLE},
    AppendState.TURN_AWAITED: frozenset({AppendState.IDLE}),
    AppendState.MEMORY_AWAITED: frozenset({AppendState.IDLE}),
    AppendState.IN_JOB: frozenset({AppendState.IDLE}),
    AppendState.WRITTEN: frozenset({AppendState.IDLE}),
    AppendState.ROLLING_BACK: frozenset({AppendState.WRITTEN}),
}

UNDER_WAY: Final = frozenset({AppendState.IN_JOB, AppendState.WRITTEN, AppendState.ROLLING_BACK})
"""A group or change was taken from the queue and has no answer yet."""


def assert_may_follow(target: AppendState, state: AppendState) -> None:
    """Asserts that the table has the transition."""
    assert state in VALID_PREDECESSORS[target], f"append queue: {target.value} cannot follow {state.value}"
