"""The states of a consumer group, with Kafka's names."""

from __future__ import annotations

import enum


class GroupState(enum.StrEnum):
    """The value is what brokers answer and Kafka's tools show."""

    EMPTY = "Empty"
    """It has offsets and no members."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are waited for, to share the partitions anew."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Its leader is waited for, which shares them."""
    ASSIGNING = "Assigning"
    """The broker is sharing them (KIP-848)."""
    RECONCILING = "Reconciling"
    """They are shared; some members have not taken theirs yet (KIP-848)."""
    STABLE = "Stable"
    """Every member has its partitions."""
    DEAD = "Dead"
    """There is no such group."""
    UNKNOWN = "Unknown"
    """Nobody tells."""

    @classmethod
    def named(cls, name: str) -> GroupState:
        """UNKNOWN for the name of a state that is newer than this."""
        return next((state for state in cls if state.value == name), cls.UNKNOWN)
