"""The role of a node of the quorum, and every way from one to the next.

A change of what `quorum-state` holds begins with its SaveElection, and nothing else is looked at until it is answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from broker_core.model.client_settings import BrokerAddress
from broker_core.raft.election_roles import CandidateRole, ProspectiveRole, ResignedRole, UnattachedRole, VoteTally
from broker_core.raft.follower_role import FollowerRole
from broker_core.raft.leader_role import LeaderRole
from broker_core.raft.observer_events import QuorumLeaderChanged, SaveElection
from broker_core.raft.quorum_values import (
    NO_NODE,
    ElectionState,
    LogReach,
    QuorumTimings,
    ReplicaIdentity,
    SnapshotId,
)
from broker_core.raft.voter_core import Awaited, VoterCore
from broker_core.raft.voter_events import RequestReceived, VoteRequest, VoterEvent
from broker_core.raft.voter_log import VoterLog
from broker_core.raft.voter_set import VoterSet
from broker_core.raft.voter_set_history import VoterSetHistory
from broker_core.raft.voter_table import VALID_PREDECESSORS, Role

AnyRole = UnattachedRole | ProspectiveRole | CandidateRole | FollowerRole | LeaderRole | ResignedRole


class VoterRoles:
    """`voters`, `log`, `snapshot_id` (the newest) and `election` are as they were found on the disk, and on the device.
    See `VoterCore` for the others."""

    def __init__(
        self,
        *,
        identity: ReplicaIdentity,
        voters: VoterSetHistory,
        listener: str,
        endpoints: Mapping[str, BrokerAddress],
        election: ElectionState,
        log: LogReach,
        random_below: Callable[[int], int],
        now_ms: int,
        snapshot_id: SnapshotId | None = None,
        timings: QuorumTimings | None = None,
        bootstrap: Sequence[BrokerAddress] = (),
        joins_by_itself: bool = False,
    ) -> None:
        self._core = VoterCore(
            identity=identity,
            history=voters,
            listener=listener,
            endpoints=endpoints,
            bootstrap=bootstrap,
            joins_by_itself=joins_by_itself,
            log=VoterLog(log, snapshot_id),
            timings=timings or QuorumTimings(),
            random_below=random_below,
            now_ms=now_ms,
        )
        self._saved = election
        self._line: deque[VoterEvent] = deque()
        self._announced = (NO_NODE, -1)
        self._granting: frozenset[int] = frozenset()
        self._role: AnyRole = self._role_at_start(election)
        self._core.election = self._role.election
        self._maybe_save()

    # What drivers and tests look at

    @property
    def role(self) -> Role:
        return self._role.role

    @property
    def election(self) -> ElectionState:
        """As it counts. What is not on the device yet has no effect outside."""
        return self._role.election

    @property
    def high_watermark(self) -> int:
        """All records below it are committed."""
        return self._core.high_watermark

    @property
    def log(self) -> VoterLog:
        return self._core.log

    @property
    def voters(self) -> VoterSet:
        """The latest ones, committed or not."""
        return self._core.history.latest

    @property
    def history(self) -> VoterSetHistory:
        return self._core.history

    @property
    def leader_address(self) -> BrokerAddress | None:
        """None if no leader is known."""
        leader_id = self.election.leader_id
        return None if leader_id == NO_NODE else self._core.address_of(leader_id)

    @property
    def awaited(self) -> Awaited:
        return self._core.awaited

    @property
    def leading(self) -> LeaderRole | None:
        """The role with its progress, while this node leads."""
        return self._role if isinstance(self._role, LeaderRole) else None

    # Roles

    def _role_at_start(self, election: ElectionState) -> AnyRole:
        core, epoch = self._core, election.leader_epoch
        deadline_ms = core.next_election_ms()
        if epoch < core.log.last_epoch:
            # The file was lost or restored: its epoch says nothing any more. No vote in the log's last epoch can be
            # given by mistake: a candidate of that epoch has no record of it.
            return UnattachedRole(ElectionState(leader_epoch=core.log.last_epoch), deadline_ms)
        if election.leader_id == core.node_id:
            preferred = tuple(core.history.latest.nodes[node_id].key for node_id in core.others)
            return ResignedRole(election, deadline_ms, set(core.others), preferred)
        is_own_vote = election.voted_id == core.node_id and election.leader_id == NO_NODE
        if core.may_stand and is_own_vote and election.voted_directory_id in (None, core.identity.directory_id):
            return CandidateRole(election, deadline_ms, VoteTally.of(core.voters, core.node_id))
        if core.can_follow(election.leader_id):
            return FollowerRole(core, election)
        return UnattachedRole(election, deadline_ms)

    def _become(self, role: AnyRole, *, again: VoterEvent | None = None) -> None:
        """`again` is judged once more, as the first thing in the new role."""
        assert self.role in VALID_PREDECESSORS[role.role], f"{self.role} before {role.role}"
        if isinstance(self._role, LeaderRole):
            self._line.extend(self._role.release_parked())
        self._role = role
        self._core.election = role.election
        self._core.links.forget()
        if again is not None:
            self._line.appendleft(again)
        self._maybe_save()

    def _maybe_save(self) -> None:
        if self._role.election != self._saved:
            self._core.awaited = Awaited.ELECTION
            self._core.effects.append(SaveElection(election=self._role.election))

    def _on_saved(self) -> None:
        role = self._role
        if isinstance(role, LeaderRole):
            role.begin(self._granting)

    def _unattach(self, epoch: int, *, again: VoterEvent | None = None) -> None:
        """In a newer epoch; a running election timer runs on."""
        match self._role:
            case UnattachedRole() | CandidateRole() | ResignedRole() as role:
                deadline_ms = role.deadline_ms
            case ProspectiveRole() as role if not role.tally.is_lost:
                deadline_ms = role.deadline_ms
            case _:
                deadline_ms = self._core.next_election_ms()
        self._become(UnattachedRole(ElectionState(leader_epoch=epoch), deadline_ms), again=again)

    def _give_vote(self, request: VoteRequest, event: RequestReceived) -> None:
        core = self._core
        election = ElectionState(
            leader_epoch=self.election.leader_epoch,
            voted_id=request.candidate_id,
            voted_directory_id=request.candidate_directory_id,
        )
        deadline_ms = core.next_election_ms()
        if isinstance(self._role, ProspectiveRole):
            tally = VoteTally.of(core.voters, core.node_id)
            self._become(ProspectiveRole(election, deadline_ms, tally), again=event)
        else:
            self._become(UnattachedRole(election, deadline_ms), again=event)

    def _follow(self, leader_id: int, epoch: int, *, again: VoterEvent | None = None) -> None:
        known = self.election
        if not self._core.can_follow(leader_id):
            self._core.stop(f"node {leader_id} cannot lead epoch {epoch}")
            return
        voted = known if known.leader_epoch == epoch else ElectionState()
        election = ElectionState(
            leader_epoch=epoch,
            leader_id=leader_id,
            voted_id=voted.voted_id,
            voted_directory_id=voted.voted_directory_id,
        )
        self._become(FollowerRole(self._core, election), again=again)

    def _stand(self) -> None:
        core = self._core
        tally = VoteTally.of(core.voters, core.node_id)
        self._become(ProspectiveRole(self.election, core.next_election_ms(), tally))

    def _become_candidate(self) -> None:
        core = self._core
        election = ElectionState(
            leader_epoch=self.election.leader_epoch + 1,
            voted_id=core.node_id,
            voted_directory_id=core.identity.directory_id,
        )
        self._become(CandidateRole(election, core.next_election_ms(), VoteTally.of(core.voters, core.node_id)))

    def _become_leader(self, role: CandidateRole) -> None:
        self._granting = frozenset(role.tally.granting)
        election = ElectionState(leader_epoch=role.election.leader_epoch, leader_id=self._core.node_id)
        self._become(LeaderRole(self._core, election))

    def _resign(self, role: LeaderRole) -> None:
        core = self._core
        preferred = role.progress.preferred_successors()
        self._become(ResignedRole(role.election, core.next_election_ms(), set(core.others), preferred))

    def _leave_prospective(self, role: ProspectiveRole) -> None:
        """Not elected. The leader may be alive: then it is followed again."""
        core, election = self._core, role.election
        if core.can_follow(election.leader_id):
            self._follow(election.leader_id, election.leader_epoch)
            return
        deadline_ms = core.next_election_ms() if role.tally.is_lost else core.now_ms
        self._become(UnattachedRole(election, deadline_ms))

    def _maybe_announce(self) -> None:
        """A leader is announced to itself once it knows everything that was committed before it."""
        election = self.election
        now = (election.leader_id, election.leader_epoch)
        is_settled = self._core.awaited is not Awaited.ELECTION and not isinstance(self._role, ProspectiveRole)
        is_ready = not isinstance(self._role, LeaderRole) or self._role.progress.high_watermark is not None
        if isinstance(self._role, ResignedRole):
            now = (NO_NODE, election.leader_epoch)
        if is_settled and is_ready and now != self._announced:
            self._announced = now
            self._core.effects.append(QuorumLeaderChanged(leader_id=now[0], leader_epoch=now[1]))
