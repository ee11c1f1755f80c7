"""Who is in sync: the members that the controller committed, and at most one proposal that it has not answered yet.

    committed {1, 2}, proposed {1, 2, 3}    maximal {1, 2, 3}    an expansion counts from the moment it is sent
    committed {1, 2}, proposed {1}          maximal {1, 2}       a shrinking only once it is committed

A proposal may be applied without the leader hearing of it, so the next leader may be any member of the maximal set: the
high watermark waits for all of them. Acknowledgements ask the committed set whether there are enough (min ISR).
"""

from __future__ import annotations

from collections.abc import Iterable

from broker_core.replication.replication_values import MemberProposal


class InSyncReplicas:
    """Of one partition at its leader."""

    def __init__(self, committed: Iterable[int]) -> None:
        self.committed = frozenset(committed)
        self.proposal: MemberProposal | None = None

    @property
    def maximal(self) -> frozenset[int]:
        """Everybody who may be a member now."""
        return self.committed if self.proposal is None else self.committed | self.proposal.ids

    def propose(self, proposal: MemberProposal) -> None:
        assert self.proposal is None, f"{proposal} while {self.proposal} is open"
        self.proposal = proposal

    def commit(self, members: Iterable[int]) -> None:
        """What the controller has; an open proposal is settled by it."""
        self.committed, self.proposal = frozenset(members), None

    def revert(self) -> None:
        self.proposal = None
