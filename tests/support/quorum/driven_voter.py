"""A voter whose disk is always done at once, and whose messages are collected instead of sent."""

from __future__ import annotations

from uuid import UUID

from kio.schema.errors import ErrorCode

from broker_core.log.leader_epochs import EpochEntry, LeaderEpochs
from broker_core.model.client_settings import BrokerAddress
from broker_core.raft.observer_events import (
    AppendBatches,
    ElectionSaved,
    QuorumAnswer,
    QuorumRequestFailed,
    SaveElection,
    TimePassed,
)
from broker_core.raft.quorum_values import ElectionState, LogReach, ReplicaIdentity, SnapshotId
from broker_core.raft.quorum_voter import QuorumVoter
from broker_core.raft.voter_events import (
    FlushLog,
    LogFlushed,
    PeerAnswered,
    RequestReceived,
    SendReply,
    SendRequest,
    StopVoter,
    VoteAnswer,
)
from broker_core.raft.voter_set import VoterSet
from broker_core.raft.voter_set_history import QuorumControls, VoterSetHistory

LISTENER = "CONTROLLER"
VOTERS = {node_id: BrokerAddress(host=f"node-{node_id}", port=9093) for node_id in (1, 2, 3)}
EPOCH, LAST_EPOCH, LOG_END = 5, 4, 10


class DrivenVoter:
    """Node 1 of three in epoch 5, with ten records of epoch 4. `voters` are static addresses by id, or the VoterSet of
    a dynamic quorum, whose record is `voters_at`."""

    def __init__(
        self, *, election=None, voters=VOTERS, node_id=1, is_written=True, is_flushing=True, voters_at=1, **others
    ):
        self.now_ms = 0
        self.is_flushing = is_flushing
        entries = [EpochEntry(leader_epoch=LAST_EPOCH, start_offset=0)] if is_written else []
        log = LogReach(log_end_offset=LOG_END if is_written else 0, epochs=LeaderEpochs(entries))
        self.saved, self.sent, self.replies, self.effects, self.stopped = [], [], {}, [], None
        self.voter = QuorumVoter(
            identity=ReplicaIdentity(node_id=node_id, directory_id=UUID(int=node_id), cluster_id="cluster"),
            voters=self._history(voters, voters_at),
            listener=LISTENER,
            endpoints={LISTENER: BrokerAddress(host=f"node-{node_id}", port=9093)},
            election=election or ElectionState(leader_epoch=EPOCH),
            log=log,
            random_below=lambda bound: bound // 2,
            now_ms=0,
            **others,
        )
        self.step(TimePassed())

    @staticmethod
    def _history(voters, voters_at):
        if not isinstance(voters, VoterSet):
            return VoterSetHistory(VoterSet.of_static(voters, LISTENER))
        history = VoterSetHistory()
        snapshot_id = SnapshotId(end_offset=voters_at + 1, epoch=LAST_EPOCH)
        history.on_snapshot(snapshot_id, QuorumControls(voters=voters, kraft_version=1))
        return history

    def step(self, event):
        """Everything that follows from it."""
        events = [event]
        while events:
            effects = self.voter.step(events.pop(0), self.now_ms)
            self.effects += effects
            for effect in effects:
                match effect:
                    case SaveElection(election=election):
                        self.saved.append(election)
                        events.append(ElectionSaved())
                    case FlushLog() if self.is_flushing:
                        events.append(LogFlushed())
                    case SendRequest():
                        self.sent.append(effect)
                    case SendReply(request_id=request_id, answer=answer):
                        self.replies[request_id] = answer
                    case StopVoter(reason=reason):
                        self.stopped = reason
        return self

    def pass_time(self, milliseconds):
        self.now_ms += milliseconds
        return self.step(TimePassed())

    def receive(self, request, *, request_id=1, cluster_id="cluster"):
        """The answer to it; None if there is none yet."""
        self.step(RequestReceived(request_id=request_id, request=request, cluster_id=cluster_id))
        return self.replies.get(request_id)

    def newest(self, to, kind):
        """The last request of that kind to that node."""
        return next(each for each in reversed(self.sent) if each.to == to and isinstance(each.request, kind))

    def answer(self, sent, kind=QuorumAnswer, *, leader_id=-1, leader_epoch=None, error=0, **fields):
        """Hears that answer."""
        epoch = sent.request.epoch if leader_epoch is None else leader_epoch
        answer = kind(error=ErrorCode(error), leader_id=leader_id, leader_epoch=epoch, **fields)
        return self.step(PeerAnswered(request_id=sent.request_id, answer=answer))

    def fail(self, sent, *, is_gone=False):
        return self.step(QuorumRequestFailed(request_id=sent.request_id, is_gone=is_gone))

    def grant(self, sent):
        return self.answer(sent, VoteAnswer, is_granted=True)

    def appended(self):
        return [effect for effect in self.effects if isinstance(effect, AppendBatches)]
