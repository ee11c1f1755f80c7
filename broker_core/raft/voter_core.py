"""What every role of a voter works with: its log, its peers, the time, and the effects of the step."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from itertools import cycle
from typing import TypeVar

from kio.schema.errors import ErrorCode

from broker_core.model.client_settings import BrokerAddress
from broker_core.raft.observer_events import (
    FetchAnswer,
    HighWatermarkAdvanced,
    QuorumAnswer,
    SnapshotAnswer,
)
from broker_core.raft.peer_links import PeerLinks
from broker_core.raft.quorum_messages import FETCH_MAX_BYTES
from broker_core.raft.quorum_values import (
    UNKNOWN_HIGH_WATERMARK,
    ElectionState,
    QuorumTimings,
    ReplicaIdentity,
)
from broker_core.raft.voter_events import (
    ReplicaFetchRequest,
    SendReply,
    SendRequest,
    SnapshotFetchRequest,
    StopVoter,
    VoteAnswer,
    VoterEffect,
    VoteRequest,
    VoterRequest,
)
from broker_core.raft.voter_log import VoterLog

Answer = TypeVar("Answer", bound=QuorumAnswer)


class Awaited(enum.Enum):
    """What has to be on the device before the next event is looked at."""

    NOTHING = enum.auto()
    ELECTION = enum.auto()
    FLUSH = enum.auto()
    INSTALLATION = enum.auto()
    STOPPED = enum.auto()


class VoterCore:
    """`voters` are the addresses of all voters by id. `random_below(n)` is a random number from 0 to n - 1."""

    def __init__(
        self,
        *,
        identity: ReplicaIdentity,
        voters: Mapping[int, BrokerAddress],
        log: VoterLog,
        timings: QuorumTimings,
        random_below: Callable[[int], int],
        now_ms: int,
    ) -> None:
        self.identity = identity
        self.voters = dict(voters)
        self.others = tuple(sorted(node_id for node_id in voters if node_id != identity.node_id))
        self.log = log
        self.timings = timings
        self.links = PeerLinks(timings)
        self.now_ms = now_ms
        self.effects: list[VoterEffect] = []
        self.awaited = Awaited.NOTHING
        self.election = ElectionState()
        self.high_watermark = log.start if log.snapshot_id is None else max(log.start, log.snapshot_id.end_offset)
        self.is_high_watermark_known = False
        self._random_below = random_below
        self._turns = cycle(self.others)

    @property
    def node_id(self) -> int:
        return self.identity.node_id

    @property
    def is_voter(self) -> bool:
        return self.identity.node_id in self.voters

    @property
    def is_stopped(self) -> bool:
        return self.awaited is Awaited.STOPPED

    def next_election_ms(self) -> int:
        """The end of an election: a new random time for each, so that two candidates do not collide again and again."""
        timeout_ms = self.timings.election_timeout_ms
        return self.now_ms + timeout_ms + self._random_below(timeout_ms)

    def next_fetch_timeout_ms(self) -> int:
        """When a leader that does not answer is given up. Kafka's timeout and some of the dice: voters that fetch from
        the same leader would stand for election at the same time, and get half of the votes each."""
        timings = self.timings
        return self.now_ms + timings.fetch_timeout_ms + self._random_below(2 * timings.stagger_ms + 1)

    # Messages

    def send(self, peer_id: int, request: VoterRequest) -> None:
        request_id = self.links.begin(peer_id, request, self.now_ms)
        self.effects.append(SendRequest(request_id=request_id, to=peer_id, request=request))

    def send_fetch(self, peer_id: int) -> None:
        """From the log's end on: says that all before is on the device."""
        watermark = self.high_watermark if self.is_high_watermark_known else UNKNOWN_HIGH_WATERMARK
        request = ReplicaFetchRequest(
            epoch=self.election.leader_epoch,
            replica_id=self.node_id,
            directory_id=self.identity.directory_id,
            fetch_offset=self.log.end,
            last_fetched_epoch=self.log.last_epoch,
            high_watermark=watermark,
            max_wait_ms=self.timings.fetch_max_wait_ms,
            max_bytes=FETCH_MAX_BYTES,
        )
        self.send(peer_id, request)

    def vote_request(self, voter_id: int, *, is_pre_vote: bool) -> VoteRequest:
        """With the own log as it is, all of it on the device."""
        return VoteRequest(
            epoch=self.election.leader_epoch,
            candidate_id=self.node_id,
            candidate_directory_id=self.identity.directory_id,
            voter_id=voter_id,
            last_epoch=self.log.last_epoch,
            last_offset=self.log.end,
            is_pre_vote=is_pre_vote,
        )

    def next_in_turn(self) -> int | None:
        """Some other voter that can be asked now."""
        for _ in self.others:
            peer_id = next(self._turns)
            if self.links.is_ready(peer_id, self.now_ms):
                return peer_id
        return None

    def reply(self, request_id: int, answer: QuorumAnswer) -> None:
        self.effects.append(SendReply(request_id=request_id, answer=answer))

    def reply_error(self, request_id: int, request: VoterRequest, error: ErrorCode) -> None:
        kind: type[QuorumAnswer] = QuorumAnswer
        if isinstance(request, VoteRequest):
            kind = VoteAnswer
        elif isinstance(request, ReplicaFetchRequest):
            kind = FetchAnswer
        elif isinstance(request, SnapshotFetchRequest):
            kind = SnapshotAnswer
        self.reply(request_id, self.answer(kind, error=error))

    def answer(self, kind: type[Answer], *, error: ErrorCode = ErrorCode.none) -> Answer:
        """An answer of that kind with the epoch and its leader as this node knows them."""
        leader_id = self.election.leader_id
        endpoints = {leader_id: self.voters[leader_id]} if leader_id in self.voters else {}
        return kind(error=error, leader_id=leader_id, leader_epoch=self.election.leader_epoch, endpoints=endpoints)

    # Commits

    def advance_high_watermark(self, reached: int) -> None:
        """It never falls while this node runs."""
        self.is_high_watermark_known = True
        if reached > self.high_watermark:
            self.high_watermark = reached
            self.effects.append(HighWatermarkAdvanced(high_watermark=reached))

    def stop(self, reason: str) -> None:
        self.awaited = Awaited.STOPPED
        self.effects.append(StopVoter(reason=reason))
