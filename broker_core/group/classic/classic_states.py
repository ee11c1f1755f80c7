"""States of a classic group, and which may follow which: Kafka's ClassicGroupState as data.

             first join, leader's or changed join
Empty  ─────────────►  PreparingRebalance  ◄──────────────────────────┐
  ▲                      │           ▲                                │
  │  nobody joined       │ all joined│, or time is up                 │ join, leave, time-out
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
    """Members are to join. Joins are parked; heartbeats are told of the rebalance; members may still commit."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """The new generation's members know each other; the leader shares out the work. Syncs are parked until it has."""

    STABLE = "Stable"
    """Every member can have its assignment. This, and Empty, is what the log knows."""

    DEAD = "Dead"
    """It was deleted: nobody finds it any more."""


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
"""Known to the coordinator alone: the log still has the generation before."""


def assert_may_follow(target: ClassicState, state: ClassicState, group_id: str) -> None:
    """Fails on a transition that the table does not have."""
    assert state in VALID_PREDECESSORS[target], f"group {group_id!r}: {target.value} cannot follow {state.value}"
