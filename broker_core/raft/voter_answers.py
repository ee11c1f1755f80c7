"""What a voter makes of the answers to its requests: a newer epoch, a leader, votes, content; or that none comes."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.raft.election_roles import CandidateRole, ProspectiveRole, ResignedRole, UnattachedRole
from broker_core.raft.follower_role import FollowerRole
from broker_core.raft.leader_role import LeaderRole
from broker_core.raft.observer_events import QuorumAnswer
from broker_core.raft.quorum_values import NO_NODE
from broker_core.raft.voter_events import (
    AddVoterRequest,
    BeginEpochRequest,
    EndEpochRequest,
    PeerAnswered,
    PeerRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VersionsAnswer,
    VersionsRequest,
    VoteAnswer,
    VoteRequest,
)
from broker_core.raft.voter_roles import VoterRoles

_STOPPING_ERRORS: Final = {
    ErrorCode.cluster_authorization_failed: "the quorum does not allow this node to take part (CLUSTER_ACTION)",
    ErrorCode.invalid_request: "the quorum calls a request of this node invalid",
}


class VoterAnswers(VoterRoles):
    """The part of `QuorumVoter` that hears answers."""

    def _on_answer(self, event: PeerAnswered) -> None:
        core, answer = self._core, event.answer
        asked = core.links.take(event.request_id)
        if asked is None:
            return
        peer_id, request = asked
        if isinstance(request, VersionsRequest):
            self._on_versions(peer_id, answer)
            return
        is_change = isinstance(request, AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest)
        if answer.error in _STOPPING_ERRORS and not is_change:
            core.stop(_STOPPING_ERRORS[answer.error])
            return
        if answer.error in (ErrorCode.broker_not_available, ErrorCode.inconsistent_cluster_id):
            self._on_failure(peer_id)
            return
        if answer.error is ErrorCode.unsupported_version:
            self._on_unsupported(peer_id, request)
            return
        if not self._maybe_transition(answer):
            self._on_body(peer_id, request, answer)

    def _maybe_transition(self, answer: QuorumAnswer) -> bool:
        """Follows a newer epoch or a leader that becomes known; whether the answer is used up by that."""
        core, known = self._core, self.election
        leader_id, epoch = answer.leader_id, answer.leader_epoch
        if epoch < known.leader_epoch:
            return False
        core.learn_leader(leader_id, answer.endpoints)
        can_lead = core.can_follow(leader_id)
        if epoch > known.leader_epoch:
            if can_lead:
                self._follow(leader_id, epoch)
            else:
                self._unattach(epoch)
            return True
        if not can_lead or (leader_id == known.leader_id and not isinstance(self._role, UnattachedRole)):
            return False
        if known.leader_id not in (NO_NODE, leader_id):
            core.stop(f"epoch {epoch} has two leaders, {known.leader_id} and {leader_id}")
        else:
            self._follow(leader_id, epoch)
        return True

    def _on_body(self, peer_id: int, request: PeerRequest, answer: QuorumAnswer) -> None:
        core, role = self._core, self._role
        is_useful = answer.error is ErrorCode.none and answer.leader_epoch == self.election.leader_epoch
        if isinstance(request, VoteRequest):
            assert isinstance(role, ProspectiveRole | CandidateRole), role
            if is_useful and isinstance(answer, VoteAnswer):
                role.tally.count(peer_id, is_granted=answer.is_granted)
        elif isinstance(request, BeginEpochRequest) and isinstance(role, LeaderRole):
            role.on_begin_answered(peer_id)
            is_useful = True
        elif isinstance(request, EndEpochRequest) and isinstance(role, ResignedRole):
            role.unaware.discard(peer_id)
            is_useful = True
        elif isinstance(request, AddVoterRequest | RemoveVoterRequest):
            is_useful = answer.error is ErrorCode.none
        elif isinstance(role, FollowerRole):
            if is_useful and answer.leader_id == role.leader_id == peer_id:
                is_useful = role.on_answer(answer)
            else:
                role.on_useless_answer(answer)
                is_useful = False
        else:
            is_useful = False  # no leader yet
        if is_useful:
            core.links.on_success(peer_id)
        else:
            core.links.on_failure(peer_id, core.now_ms)

    def _on_versions(self, peer_id: int, answer: QuorumAnswer) -> None:
        """Of the node that is to be a voter."""
        assert isinstance(self._role, LeaderRole), self._role
        self._core.links.on_success(peer_id)
        self._role.changes.on_versions(answer if isinstance(answer, VersionsAnswer) else None)

    def _on_unsupported(self, peer_id: int, request: PeerRequest) -> None:
        """A voter without pre-votes is in the quorum: stand for election without them. A leader that knows nothing of
        dynamic voters: does not need to be told of this one."""
        role = self._role
        if isinstance(role, ProspectiveRole) and self._core.log.is_flushed:
            self._become_candidate()
        elif isinstance(role, FollowerRole) and isinstance(request, UpdateVoterRequest):
            role.has_reported = True
        else:
            self._on_failure(peer_id)

    def _on_no_answer(self, request_id: int, *, is_gone: bool = False) -> None:
        asked = self._core.links.take(request_id)
        if asked is None:
            return
        self._on_failure(asked[0], is_gone=is_gone)
        if isinstance(asked[1], VersionsRequest):
            assert isinstance(self._role, LeaderRole), self._role
            self._role.changes.on_versions(None)

    def _on_failure(self, peer_id: int, *, is_gone: bool = False) -> None:
        self._core.links.on_failure(peer_id, self._core.now_ms)
        if isinstance(self._role, FollowerRole):
            self._role.on_no_answer(peer_id, is_gone=is_gone)
