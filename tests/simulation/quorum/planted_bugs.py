"""Voters with one planted bug each: what the simulation must catch."""

from __future__ import annotations

from dataclasses import replace

from broker_core.raft.election_roles import UnattachedRole
from broker_core.raft.follower_role import FollowerRole
from broker_core.raft.leader_progress import LeaderProgress
from broker_core.raft.leader_role import LeaderRole
from broker_core.raft.observer_events import ElectionSaved, SaveElection
from broker_core.raft.peer_links import PeerLinks
from broker_core.raft.quorum_values import NO_NODE, ElectionState
from broker_core.raft.quorum_voter import QuorumVoter
from broker_core.raft.voter_core import Awaited
from broker_core.raft.voter_events import LogFlushed, ReplicaFetchRequest, VoteAnswer, VoteRequest
from broker_core.raft.voter_log import VoterLog
from broker_core.raft.voter_table import Reaction, Role


class VoteAnsweredBeforeItIsSaved(QuorumVoter):
    _early_count = 0

    def _maybe_save(self):
        super()._maybe_save()
        is_vote = self._role.election.voted_id not in (NO_NODE, self._core.node_id)
        if is_vote and self.role is Role.UNATTACHED and self._core.awaited is Awaited.ELECTION:
            self._core.awaited = Awaited.NOTHING
            self._saved = self._role.election
            self._early_count += 1

    def _on_completion(self, event):
        if isinstance(event, ElectionSaved) and self._early_count:
            self._early_count -= 1
        else:
            super()._on_completion(event)


class EpochMissingInTheVoteFile(QuorumVoter):
    """Saves a vote with the epoch that the file had."""

    def _maybe_save(self):
        super()._maybe_save()
        for place, effect in enumerate(self._core.effects):
            if isinstance(effect, SaveElection) and effect.election.voted_id == self._core.node_id:
                saved = ElectionState(leader_epoch=self._saved.leader_epoch, voted_id=self._core.node_id)
                self._core.effects[place] = SaveElection(election=saved)


class RestartedLeaderVotesAgain(QuorumVoter):
    """Forgets that it led the epoch, where Kafka's comes back as resigned."""

    def _role_at_start(self, election):
        if election.leader_id == self._core.node_id:
            return UnattachedRole(ElectionState(leader_epoch=election.leader_epoch), self._core.next_election_ms())
        return super()._role_at_start(election)


class LogsComparedByLength(QuorumVoter):
    def _is_up_to_date(self, request):
        return request.last_offset >= self._core.log.end


class LogsComparedByEpochAlone(QuorumVoter):
    def _is_up_to_date(self, request):
        return request.last_epoch >= self._core.log.last_epoch


class PreVoteGivenBesideALiveLeader(QuorumVoter):
    def _on_vote(self, reaction, event, request):
        if reaction is Reaction.GRANT_IF_NEVER_FETCHED:
            reaction = Reaction.GRANT_IF_UP_TO_DATE
        super()._on_vote(reaction, event, request)


class VotesTwiceInAnEpoch(QuorumVoter):
    def _on_vote(self, reaction, event, request):
        election = self.election
        is_given = election.voted_id not in (NO_NODE, request.candidate_id)
        if reaction is Reaction.GRANT_IF_FREE and is_given and self._is_up_to_date(request):
            self._give_vote(request, event)
        else:
            super()._on_vote(reaction, event, request)


class LeaderIgnoringNewerEpochs(QuorumVoter):
    """Refuses what it is asked in a newer epoch, as if it were an older one."""

    def _react(self, reaction, event):
        if self.role is Role.LEADER and reaction in (Reaction.UNATTACH, Reaction.FOLLOW):
            reaction = Reaction.FENCE
        super()._react(reaction, event)


class ParkedFetchesAnsweredByAStaleRole(QuorumVoter):
    """What waited at a leader gets the records of the next one, from whatever this node is then."""

    _old: LeaderRole | None = None

    def _become(self, role, *, again=None):
        if isinstance(self._role, LeaderRole):
            self._old = LeaderRole(self._core, self._role.election)
            self._old._parked, self._role._parked = self._role._parked, []
        super()._become(role, again=again)

    def _on_completion(self, event):
        super()._on_completion(event)
        if isinstance(event, LogFlushed) and self._old is not None:
            self._old._answer_parked(lambda parked: parked.fetch.fetch_offset < self._core.log.end)


class FetchOfAnOlderEpochServed(QuorumVoter):
    def _react(self, reaction, event):
        is_fetch = isinstance(event.request, ReplicaFetchRequest)
        if reaction is Reaction.FENCE and is_fetch and self.role is Role.LEADER:
            reaction = Reaction.SERVE_FETCH
        super()._react(reaction, event)


class _WithoutCheckQuorum(LeaderProgress):
    def has_lost_quorum(self, now_ms):
        self.check_quorum_ms = now_ms + 1000
        return False


class LeaderWithoutCheckQuorum(QuorumVoter):
    """KAFKA-15489: a leader that is cut off leads on."""

    def _become(self, role, *, again=None):
        if isinstance(role, LeaderRole):
            role.progress.__class__ = _WithoutCheckQuorum
        super()._become(role, again=again)


class ElectionTimerWithoutDice(QuorumVoter):
    def __init__(self, *, random_below, **others):
        super().__init__(random_below=lambda n: 0, **others)


class CandidateWithUnflushedLog(QuorumVoter):
    """Asks for votes with records that it may still lose."""

    def _on_time_prospective(self, role):
        if role.tally.is_won:
            self._become_candidate()
        else:
            super()._on_time_prospective(role)


# The log


class _CountingUnflushed(LeaderRole):
    def _maybe_commit(self):
        log = self._core.log
        flushed_end, log.flushed_end = log.flushed_end, log.end
        super()._maybe_commit()
        log.flushed_end = flushed_end


class _OlderEpochsByCounting(LeaderProgress):
    def maybe_advance(self, own_flushed_end):
        self._epoch_start = 0
        return super().maybe_advance(own_flushed_end)


class _LogKeepingEpochs(VoterLog):
    def truncate(self, end_offset, effects):
        epochs = type(self.reach.epochs)(self.reach.epochs.entries)
        super().truncate(end_offset, effects)
        self.reach.epochs = epochs


class _FetchingBeforeTheFlush(FollowerRole):
    def _on_records(self, answer):
        is_useful = super()._on_records(answer)
        if self._core.awaited is Awaited.FLUSH:
            self._core.awaited = Awaited.NOTHING
            self.on_flushed()
        return is_useful

    def poll(self):
        log = self._core.log
        claim, log._claim = log._claim, None
        must_flush, log._must_flush = log._must_flush, False
        super().poll()
        log._claim, log._must_flush = claim, must_flush


class _TruncatingTooMuch(FollowerRole):
    """To the start of the epoch where the logs part."""

    def _truncate(self, diverging):
        epochs = self._core.log.reach.epochs
        starts = [entry.start_offset for entry in epochs.entries if entry.leader_epoch <= diverging[0]]
        end_offset = min([diverging[1], *starts[-1:]])
        if end_offset >= self._core.log.end:
            return False
        self._core.log.truncate(max(end_offset, self._core.log.start), self._core.effects)
        self._core.awaited = Awaited.FLUSH
        return True


class _NotTruncating(FollowerRole):
    def _truncate(self, diverging):
        return True


class _WatermarkBeyondTheEnd(FollowerRole):
    def on_flushed(self):
        offered, self._offered_high_watermark = self._offered_high_watermark, -1
        if offered >= 0:
            self._core.advance_high_watermark(offered)


class _InstallingTooEarly(FollowerRole):
    def _on_chunk(self, answer):
        return super()._on_chunk(replace(answer, size_bytes=answer.position + len(answer.chunk)))


class _PlantedFollower(QuorumVoter):
    """With another follower role."""

    follower = FollowerRole

    def _become(self, role, *, again=None):
        if isinstance(role, FollowerRole):
            role.__class__ = self.follower
        super()._become(role, again=again)

    def _role_at_start(self, election):
        role = super()._role_at_start(election)
        if isinstance(role, FollowerRole):
            role.__class__ = self.follower
        return role


class OwnLogCountedBeforeTheFlush(QuorumVoter):
    """What Kafka 4.3 does: records on one device alone can be committed."""

    def _become(self, role, *, again=None):
        if isinstance(role, LeaderRole):
            role.__class__ = _CountingUnflushed
        super()._become(role, again=again)


class OlderEpochCommittedByCounting(QuorumVoter):
    """Figure 8 of the Raft paper."""

    def _become(self, role, *, again=None):
        if isinstance(role, LeaderRole):
            role.progress.__class__ = _OlderEpochsByCounting
        super()._become(role, again=again)


class EpochsOfTruncatedRecordsKept(QuorumVoter):
    """KAFKA-10706."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self._core.log.__class__ = _LogKeepingEpochs


class FetchBeforeTheFlush(_PlantedFollower):
    """Acknowledges what is not on the device."""

    follower = _FetchingBeforeTheFlush

    def _on_completion(self, event):
        if isinstance(event, LogFlushed) and self._core.awaited is not Awaited.FLUSH:
            self._core.log.on_flushed()
            if isinstance(self._role, LeaderRole):
                self._role.on_flushed()
            return
        super()._on_completion(event)


class TruncationBelowTheWatermark(_PlantedFollower):
    """KIP-101's kind."""

    follower = _TruncatingTooMuch


class NoTruncation(_PlantedFollower):
    follower = _NotTruncating


class FollowerWatermarkBeyondItsLog(_PlantedFollower):
    follower = _WatermarkBeyondTheEnd


class SnapshotInstalledInPieces(_PlantedFollower):
    follower = _InstallingTooEarly


# Messages


class _CountingEveryAnswer(PeerLinks):
    def take(self, request_id):
        asked = self._asked.get(request_id)
        super().take(request_id)
        if asked is not None and isinstance(asked[1], VoteRequest):
            self._asked[request_id] = asked
        return asked

    @property
    def under_way_count(self):
        return sum(not isinstance(request, VoteRequest) for _, request in self._asked.values())

    def overdue(self, now_ms):
        return [n for n in super().overdue(now_ms) if self._links[self._asked[n][0]].request_id == n]


class DuplicateVoteCountedTwice(QuorumVoter):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        self._core.links.__class__ = _CountingEveryAnswer

    def _on_body(self, peer_id, request, answer):
        tally = getattr(self._role, "tally", None)
        if tally is not None and peer_id in tally.granting and isinstance(answer, VoteAnswer):
            tally.granting.add(-len(tally.granting))
        else:
            super()._on_body(peer_id, request, answer)


class _AnyAnswerIsAwaited(PeerLinks):
    def take(self, request_id):
        if request_id not in self._asked and self._asked:
            request_id = next(iter(self._asked))
        return super().take(request_id)


class LateAnswersTakenForTheAwaitedOne(QuorumVoter):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        self._core.links.__class__ = _AnyAnswerIsAwaited


PLANTED = {
    VoteAnsweredBeforeItIsSaved: 0,
    EpochMissingInTheVoteFile: 0,
    RestartedLeaderVotesAgain: 0,
    LogsComparedByLength: 9,
    LogsComparedByEpochAlone: 0,
    PreVoteGivenBesideALiveLeader: 0,
    VotesTwiceInAnEpoch: 5,
    LeaderIgnoringNewerEpochs: 7,
    ParkedFetchesAnsweredByAStaleRole: 9,
    FetchOfAnOlderEpochServed: 0,
    LeaderWithoutCheckQuorum: 0,
    ElectionTimerWithoutDice: 0,
    CandidateWithUnflushedLog: 38,
    OwnLogCountedBeforeTheFlush: 0,
    OlderEpochCommittedByCounting: 72,
    EpochsOfTruncatedRecordsKept: 0,
    FetchBeforeTheFlush: 0,
    TruncationBelowTheWatermark: 0,
    NoTruncation: 0,
    FollowerWatermarkBeyondItsLog: 1,
    SnapshotInstalledInPieces: 2,
    DuplicateVoteCountedTwice: 27,
    LateAnswersTakenForTheAwaitedOne: 4,
}
"""Each bug, and the first seed that shows it."""
