"""The roles of a voter around an election: everything but the leader and its followers.

UNATTACHED ──time over──► PROSPECTIVE ──majority of pre-votes──► CANDIDATE ──majority of votes──► leader
    ▲                          │ lost, or time over                  │ time over
    └──────────────────────────┴◄──────────── PROSPECTIVE ◄──────────┘
leader ──quorum lost, or asked to──► RESIGNED ──time over──► UNATTACHED in the next epoch
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from broker_core.raft.quorum_values import ElectionState
from broker_core.raft.voter_set import ReplicaKey
from broker_core.raft.voter_table import Role


@dataclass(slots=True)
class VoteTally:
    """Who answered, each voter once. The own vote is in it from the start, if this node is a voter."""

    voters: frozenset[int]
    granting: set[int]
    refusing: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, voters: Iterable[int], own_id: int) -> VoteTally:
        return cls(frozenset(voters), {own_id} & frozenset(voters))

    def count(self, voter_id: int, *, is_granted: bool) -> None:
        if voter_id in self.voters:
            (self.granting if is_granted else self.refusing).add(voter_id)

    @property
    def unanswered(self) -> list[int]:
        return sorted(self.voters - self.granting - self.refusing)

    @property
    def is_won(self) -> bool:
        return len(self.granting) >= self._majority

    @property
    def is_lost(self) -> bool:
        return len(self.voters) - len(self.refusing) < self._majority

    @property
    def _majority(self) -> int:
        return len(self.voters) // 2 + 1


@dataclass(slots=True)
class UnattachedRole:
    """An epoch whose leader is not known. With a vote in `election` it is what textbooks call voted."""

    role: ClassVar = Role.UNATTACHED
    election: ElectionState
    deadline_ms: int


@dataclass(slots=True)
class ProspectiveRole:
    """Asks whether it would be elected, before it disturbs others with a new epoch. Not in `quorum-state`."""

    role: ClassVar = Role.PROSPECTIVE
    election: ElectionState
    deadline_ms: int
    tally: VoteTally


@dataclass(slots=True)
class CandidateRole:
    """Voted for itself."""

    role: ClassVar = Role.CANDIDATE
    election: ElectionState
    deadline_ms: int
    tally: VoteTally


@dataclass(slots=True)
class ResignedRole:
    """Led this epoch, and does not any more: a restarted leader, too. `unaware` have not acknowledged that."""

    role: ClassVar = Role.RESIGNED
    election: ElectionState
    deadline_ms: int
    unaware: set[int]
    preferred: tuple[ReplicaKey, ...]
