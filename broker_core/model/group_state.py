"""The states of a consumer group, with Kafka's names."""

from __future__ import annotations

import enum


class GroupState(enum.StrEnum):
    """The value is Kafka's name of the state."""

    EMPTY = "Empty"
    """It has offsets and no members."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """The group waits for members to join."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The group waits for its leader's assignment."""
    ASSIGNING = "Assigning"
    """The broker computes the assignment (KIP-848)."""
    RECONCILING = "Reconciling"
    """The assignment is computed; some members have not reached it yet (KIP-848)."""
    STABLE = "Stable"
    """Every member has its assignment."""
    DEAD = "Dead"
    """The group does not exist."""
    UNKNOWN = "Unknown"
    """A state that this version does not know."""

    @classmethod
    def named(cls, name: str) -> GroupState:
        """UNKNOWN for a state of a newer version."""
        return next((state for state in cls if state.value == name), cls.UNKNOWN)
