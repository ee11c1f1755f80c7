"""A node of the metadata quorum (KRaft): votes, leads, follows. Also without a vote, if it is not among the voters.

A machine: `step(event, now_ms)` returns effects, in the order in which they have to be done. Its roles are in
`election_roles`, `leader_role` and `follower_role`; what it does with requests is `voter_table`.

Two things have to be on the device before others may know of them, and each is an effect that is answered:

    quorum-state   a new epoch, vote or leader is saved before anything else is looked at: events that come meanwhile
                   wait in a line. What caused the change is judged again after it, and only then answered.
    log            a follower fetches on only after the flush, a leader counts its own log only up to what is flushed,
                   and a candidacy waits until the log is flushed, since what it claims to have must not be lost.

Kafka 4.3 counts the leader's own records before they are flushed; this machine does not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.model.limits import MAX_WAITING_QUORUM_EVENTS
from broker_core.raft.election_roles import CandidateRole, ProspectiveRole, ResignedRole, UnattachedRole
from broker_core.raft.follower_role import FollowerRole
from broker_core.raft.leader_role import LeaderRole
from broker_core.raft.observer_events import (
    ElectionSaved,
    QuorumAnswer,
    QuorumRequestFailed,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
)
from broker_core.raft.quorum_values import NO_NODE, ElectionState
from broker_core.raft.request_checks import epoch_of, is_valid, kind_of
from broker_core.raft.voter_answers import VoterAnswers
from broker_core.raft.voter_core import Awaited
from broker_core.raft.voter_events import (
    AddVoterRequest,
    BeginEpochRequest,
    EndEpochRequest,
    LogFlushed,
    PeerAnswered,
    RecordsProposed,
    RecordsRefused,
    RemoveVoterRequest,
    ReplicaFetchRequest,
    RequestReceived,
    ResignRequested,
    SnapshotFetchRequest,
    UpdateVoterRequest,
    VoteAnswer,
    VoterEffect,
    VoteRequest,
    VoterEvent,
    VoterRequest,
)
from broker_core.raft.voter_table import Reaction, reaction

_COMPLETIONS: Final = (ElectionSaved, LogFlushed, SnapshotInstalled, SnapshotRefused)


class QuorumVoter(VoterAnswers):
    """See `VoterRoles` for what it is made of."""

    @property
    def next_timer_ms(self) -> int | None:
        """When a TimePassed is due; None while an effect on the disk comes first."""
        if self._core.awaited is not Awaited.NOTHING:
            return None
        return min((timer for timer in self._timers() if timer is not None), default=None)

    def _timers(self) -> list[int | None]:
        role, links = self._role, self._core.links
        timers: list[int | None] = [links.next_deadline_ms]
        match role:
            case LeaderRole():
                return [*timers, role.next_timer_ms()]
            case FollowerRole():
                timers += [role.next_timer_ms(), role.deadline_ms if self._core.may_stand else None]
            case UnattachedRole():
                is_idle = not links.under_way_count
                timers += [links.next_ms(peer_id) for peer_id in self._core.peers if is_idle]
                timers += [role.deadline_ms] if self._core.may_stand else []
            case ProspectiveRole() | CandidateRole() if role.tally.is_won:
                pass  # waits for a flush
            case ProspectiveRole() | CandidateRole():
                timers += [role.deadline_ms, *map(links.next_ms, role.tally.unanswered)]
            case ResignedRole():
                timers += [role.deadline_ms, *map(links.next_ms, role.unaware)]
        return timers

    # Steps

    def step(self, event: VoterEvent, now_ms: int) -> list[VoterEffect]:
        """The effects of one event, and of everything whose time has come."""
        core = self._core
        core.now_ms = now_ms
        if core.is_stopped:
            return []
        if isinstance(event, _COMPLETIONS):
            self._on_completion(event)
        elif len(self._line) < MAX_WAITING_QUORUM_EVENTS:
            self._line.append(event)
        elif isinstance(event, RecordsProposed):
            core.effects.append(RecordsRefused(proposal_id=event.proposal_id))
        while core.awaited is Awaited.NOTHING:
            if self._line:
                self._on_event(self._line.popleft())
            elif not self._on_time():
                break
        if not core.is_stopped:
            core.log.maybe_flush(core.effects)
            self._maybe_announce()
        effects, core.effects = core.effects, []
        return effects

    def _on_completion(self, event: VoterEvent) -> None:
        core, role = self._core, self._role
        match event:
            case ElectionSaved():
                assert core.awaited is Awaited.ELECTION, core.awaited
                self._saved = role.election
                core.awaited = Awaited.NOTHING
                self._on_saved()
            case LogFlushed():
                core.log.on_flushed()
                if isinstance(role, LeaderRole):
                    role.on_flushed()
                elif core.awaited is Awaited.FLUSH and core.log.is_flushed:
                    core.awaited = Awaited.NOTHING
                    assert isinstance(role, FollowerRole), role
                    role.on_flushed()
            case _:
                assert core.awaited is Awaited.INSTALLATION, core.awaited
                assert isinstance(role, FollowerRole), role
                core.awaited = Awaited.NOTHING
                if isinstance(event, SnapshotInstalled):
                    role.on_installed(event)
                else:
                    role.on_refused()

    def _on_event(self, event: VoterEvent) -> None:
        core, role = self._core, self._role
        match event:
            case RequestReceived():
                self._on_request(event)
            case PeerAnswered():
                self._on_answer(event)
            case QuorumRequestFailed(request_id=request_id, is_gone=is_gone):
                self._on_no_answer(request_id, is_gone=is_gone)
            case RecordsProposed(proposal_id=proposal_id):
                if isinstance(role, LeaderRole):
                    role.propose(event)
                else:
                    core.effects.append(RecordsRefused(proposal_id=proposal_id))
            case SnapshotTaken(snapshot_id=snapshot_id, log_start_offset=log_start_offset):
                core.log.on_snapshot_taken(snapshot_id, log_start_offset)
                core.history.forget_before(log_start_offset)
            case ResignRequested():
                if isinstance(role, LeaderRole):
                    self._resign(role)

    # Requests

    def _on_request(self, event: RequestReceived) -> None:
        core, request = self._core, event.request
        own_cluster = core.identity.cluster_id
        if event.cluster_id is not None and own_cluster is not None and event.cluster_id != own_cluster:
            core.reply_error(event.request_id, request, ErrorCode.inconsistent_cluster_id)
            return
        if isinstance(request, VoteRequest | BeginEpochRequest) and not self._is_addressee(request):
            core.reply_error(event.request_id, request, ErrorCode.invalid_voter_key)
            return
        if not is_valid(request):
            core.reply_error(event.request_id, request, ErrorCode.invalid_request)
            return
        own_epoch = self.election.leader_epoch
        epoch = epoch_of(request, own_epoch)
        self._react(reaction(self.role, kind_of(request), own_epoch=own_epoch, epoch=epoch), event)

    def _is_addressee(self, request: VoteRequest | BeginEpochRequest) -> bool:
        """Not another node, nor one that had this node's id and another disk."""
        own = self._core.own
        is_own_directory = request.voter_directory_id in (None, own.directory_id)
        return request.voter_id == NO_NODE or (request.voter_id == own.node_id and is_own_directory)

    def _react(self, reaction: Reaction, event: RequestReceived) -> None:
        core, request = self._core, event.request
        match reaction:
            case Reaction.FENCE:
                core.reply_error(event.request_id, request, ErrorCode.fenced_leader_epoch)
            case Reaction.UNKNOWN_EPOCH:
                core.reply_error(event.request_id, request, ErrorCode.unknown_leader_epoch)
            case Reaction.NOT_LEADER:
                core.reply_error(event.request_id, request, ErrorCode.not_leader_or_follower)
            case Reaction.UNATTACH:
                self._unattach(epoch_of(request, 0), again=event)
            case Reaction.FOLLOW | Reaction.TWO_LEADERS | Reaction.ACKNOWLEDGE | Reaction.END_EPOCH:
                assert isinstance(request, BeginEpochRequest | EndEpochRequest), request
                self._on_leader(reaction, event, request)
            case Reaction.SERVE_FETCH:
                assert isinstance(self._role, LeaderRole) and isinstance(request, ReplicaFetchRequest), request
                self._role.on_fetch(event, request)
            case Reaction.SERVE_SNAPSHOT:
                assert isinstance(self._role, LeaderRole) and isinstance(request, SnapshotFetchRequest), request
                self._role.on_snapshot_fetch(event, request)
            case Reaction.CHANGE_VOTERS:
                assert isinstance(self._role, LeaderRole), self._role
                self._change_voters(self._role, event.request_id, request)
            case _:
                assert isinstance(request, VoteRequest), request
                self._on_vote(reaction, event, request)

    def _change_voters(self, role: LeaderRole, request_id: int, request: VoterRequest) -> None:
        match request:
            case AddVoterRequest():
                role.changes.on_add(request_id, request)
            case RemoveVoterRequest():
                role.changes.on_remove(request_id, request)
            case _:
                assert isinstance(request, UpdateVoterRequest), request
                role.changes.on_update(request_id, request)

    def _on_leader(
        self, reaction: Reaction, event: RequestReceived, request: BeginEpochRequest | EndEpochRequest
    ) -> None:
        core, known_id = self._core, self.election.leader_id
        is_newer = request.epoch > self.election.leader_epoch
        address = request.endpoints.get(core.listener)
        if address is not None:
            core.learn_leader(request.leader_id, {request.leader_id: address})
        if request.leader_id in (NO_NODE, core.node_id):
            core.reply_error(event.request_id, request, ErrorCode.invalid_request)
        elif not core.can_follow(request.leader_id):
            self._on_unreachable_leader(event, request.epoch, is_newer=is_newer)
        elif not is_newer and known_id not in (NO_NODE, request.leader_id):
            core.stop(f"epoch {request.epoch} has two leaders, {known_id} and {request.leader_id}")
        elif reaction is Reaction.FOLLOW:
            self._follow(request.leader_id, request.epoch, again=event)
        else:
            if reaction is Reaction.END_EPOCH:
                assert isinstance(request, EndEpochRequest) and isinstance(self._role, FollowerRole), request
                self._role.on_end_epoch(request)
            core.reply(event.request_id, core.answer(QuorumAnswer))

    def _on_unreachable_leader(self, event: RequestReceived, epoch: int, *, is_newer: bool) -> None:
        """Nobody knows where it is: neither the request nor the voters' record. It is found by its other followers."""
        if is_newer:
            self._unattach(epoch, again=event)
        else:
            self._core.reply(event.request_id, self._core.answer(QuorumAnswer))

    def _on_vote(self, reaction: Reaction, event: RequestReceived, request: VoteRequest) -> None:
        is_granted = False
        match reaction:
            case Reaction.GRANT_IF_UP_TO_DATE:
                is_granted = self._is_up_to_date(request)
            case Reaction.GRANT_IF_NEVER_FETCHED:
                assert isinstance(self._role, FollowerRole)
                is_granted = not self._role.hears_leader and self._is_up_to_date(request)
            case Reaction.GRANT_IF_FREE:
                election = self.election
                is_same_directory = election.voted_directory_id in (None, request.candidate_directory_id)
                is_granted = request.candidate_id == election.voted_id and is_same_directory
                is_free = election.voted_id == NO_NODE and election.leader_id == NO_NODE
                if is_free and self._is_up_to_date(request):
                    self._give_vote(request, event)
                    return
        core = self._core
        core.reply(event.request_id, replace(core.answer(VoteAnswer), is_granted=is_granted))

    def _is_up_to_date(self, request: VoteRequest) -> bool:
        log = self._core.log
        return (request.last_epoch, request.last_offset) >= (log.last_epoch, log.end)

    # Time

    def _on_time(self) -> bool:
        """Does what is due; whether the role changed, so that there may be more."""
        core, before = self._core, self._role
        for request_id in core.links.overdue(core.now_ms):
            self._on_no_answer(request_id)
        match before:
            case UnattachedRole():
                self._on_time_unattached(before)
            case ProspectiveRole():
                self._on_time_prospective(before)
            case CandidateRole():
                self._on_time_candidate(before)
            case FollowerRole():
                is_over = core.may_stand and core.now_ms >= before.deadline_ms
                self._stand() if is_over else before.poll()
            case LeaderRole():
                if before.must_resign or before.progress.has_lost_quorum(core.now_ms):
                    self._resign(before)
                else:
                    before.poll()
            case ResignedRole():
                self._on_time_resigned(before)
        return self._role is not before

    def _on_time_unattached(self, role: UnattachedRole) -> None:
        core = self._core
        if core.may_stand and (not core.others or core.now_ms >= role.deadline_ms):
            self._stand()
        elif not core.links.under_way_count:
            peer_id = core.next_in_turn()
            if peer_id is not None:
                core.send_fetch(peer_id)

    def _on_time_prospective(self, role: ProspectiveRole) -> None:
        core = self._core
        if role.tally.is_won:
            if core.log.is_flushed:
                self._become_candidate()
        elif role.tally.is_lost or core.now_ms >= role.deadline_ms:
            self._leave_prospective(role)
        else:
            self._ask_for_votes(role)

    def _on_time_candidate(self, role: CandidateRole) -> None:
        if role.tally.is_won:
            self._become_leader(role)
        elif self._core.now_ms >= role.deadline_ms:
            self._stand()
        else:
            self._ask_for_votes(role)

    def _ask_for_votes(self, role: ProspectiveRole | CandidateRole) -> None:
        core = self._core
        for peer_id in role.tally.unanswered:
            if core.links.is_ready(peer_id, core.now_ms):
                core.send(peer_id, core.vote_request(peer_id, is_pre_vote=isinstance(role, ProspectiveRole)))

    def _on_time_resigned(self, role: ResignedRole) -> None:
        """The epoch is raised at last, so that no node follows the old one."""
        core, election = self._core, role.election
        if not core.others or core.now_ms >= role.deadline_ms:
            self._become(UnattachedRole(ElectionState(leader_epoch=election.leader_epoch + 1), core.next_election_ms()))
            return
        for peer_id in sorted(role.unaware):
            if core.links.is_ready(peer_id, core.now_ms):
                core.send(peer_id, self._end_request(role))

    def _end_request(self, role: ResignedRole) -> EndEpochRequest:
        core = self._core
        return EndEpochRequest(
            epoch=role.election.leader_epoch,
            leader_id=core.node_id,
            preferred=role.preferred,
            endpoints=core.own.endpoints,
        )
