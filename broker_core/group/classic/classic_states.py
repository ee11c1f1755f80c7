"""States of a classic group, and which may follow which: Kafka's ClassicGroupState as data.

             first join, leader's or changed join
Empty  ─────────────►  PreparingRebalance  ◄──────────────────────────┐
  ▲                      │           ▲                                │
  │  no member joined    │ all joined│, or time is up                 │ join, leave, time-out
  └──────────────────────┤           │                                │
                         ▼           │ join, leave, sync time-out     │
                 CompletingRebalance ┘                                │
                         │ the leader's assignment is stored          │
                         └───────────────────►  Stable ───────────────┘
any ──► Dead             the group was deleted
"""

from __future__ import annotations

import enum


class ClassicState(enum.Enum):
    """The value is Kafka's name for it."""

    EMPTY = "Empty"
    """No members. Offsets may be committed by anyone; they expire. A join begins the first rebalance, which waits for
    group.initial.rebalance.delay.ms."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members have to join. Joins are parked; heartbeats announce the rebalance; members may still commit."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """The new generation is known; the leader computes the assignment. Syncs are parked until it arrives."""

    STABLE = "Stable"
    """Every member can fetch its assignment. The log stores only this state and Empty."""

    DEAD = "Dead"
    """The group was deleted and can no longer be found."""


VALID_PREDECESSORS: dict[ClassicState, frozenset[ClassicState]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.STABLE: frozenset({ClassicState.COMPLETING_REBALANCE}),
    ClassicState.DEAD: frozenset(ClassicState),
}

REBALANCING: frozenset[ClassicState] = frozenset({ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE})
"""States that only the coordinator knows: the log still has the previous generation."""


def assert_may_follow(target: ClassicState, state: ClassicState, group_id: str) -> None:
    """Asserts that the table has the transition."""
    assert state in VALID_PREDECESSORS[target], f"group {group_id!r}: {target.value} cannot follow {state.value}"
