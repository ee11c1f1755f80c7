"""What every role of a voter works with: its log, its peers, the time, and the effects of the step."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, cycle
from typing import Final, TypeVar

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
    NO_NODE,
    UNKNOWN_HIGH_WATERMARK,
    ElectionState,
    QuorumTimings,
    ReplicaIdentity,
)
from broker_core.raft.voter_events import (
    AddVoterRequest,
    ChangeAnswer,
    PeerRequest,
    RemoveVoterRequest,
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
from broker_core.raft.voter_set import VoterNode
from broker_core.raft.voter_set_history import VoterSetHistory

FIRST_BOOTSTRAP_ID: Final = -2
"""Bootstrap servers are asked without knowing their ids: this number stands for the first, lower ones for others."""

Answer = TypeVar("Answer", bound=QuorumAnswer)


class Awaited(enum.Enum):
    """What has to be on the device before the next event is looked at."""

    NOTHING = enum.auto()
    ELECTION = enum.auto()
    FLUSH = enum.auto()
    INSTALLATION = enum.auto()
    STOPPED = enum.auto()


class VoterCore:
    """`history` are the voters as the log says; `listener` is the name of the one that controllers use among
    themselves, `endpoints` are the own addresses by listener, `bootstrap` those of nodes that may know the leader.
    `joins_by_itself`: an observer asks for a vote.
    `random_below(n)` is a random number from 0 to n - 1."""

    def __init__(
        self,
        *,
        identity: ReplicaIdentity,
        history: VoterSetHistory,
        listener: str,
        endpoints: Mapping[str, BrokerAddress],
        bootstrap: Sequence[BrokerAddress],
        joins_by_itself: bool,
        log: VoterLog,
        timings: QuorumTimings,
        random_below: Callable[[int], int],
        now_ms: int,
    ) -> None:
        self.identity = identity
        self.own = VoterNode(node_id=identity.node_id, directory_id=identity.directory_id, endpoints=endpoints)
        self.history = history
        self.listener = listener
        self.joins_by_itself = joins_by_itself
        self.voters: frozenset[int] = frozenset()
        self.others: tuple[int, ...] = ()
        """The voters without this node."""
        self._bootstrap = dict(zip(count(FIRST_BOOTSTRAP_ID, -1), bootstrap, strict=False))
        self._leader_place: tuple[int, BrokerAddress] | None = None
        self.peers: tuple[int, ...] = ()
        """Whom this node asks for the leader, in turn: the other voters and the bootstrap servers."""
        self._turns: Iterator[int] = iter(())
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
        self.on_voters()

    @property
    def node_id(self) -> int:
        return self.identity.node_id

    @property
    def is_voter(self) -> bool:
        """By its key: another directory of the same node is another replica."""
        return self.history.latest.is_voter(self.own.key)

    @property
    def may_stand(self) -> bool:
        """Also a voter whose removal may not be committed: if the others lack that record, nobody else can be elected,
        since this node's longer log makes it refuse them."""
        return any(voters.is_voter(self.own.key) for voters in self.history.maybe_in_force(self.high_watermark))

    def on_voters(self) -> None:
        """The latest voters are others now."""
        latest = self.history.latest
        self.voters = frozenset(latest.nodes)
        self.others = tuple(sorted(self.voters - {self.node_id}))
        known = {latest.address_of(node_id, self.listener) for node_id in self.others}
        known.add(self.own.endpoints.get(self.listener))
        servers = [peer_id for peer_id, address in self._bootstrap.items() if address not in known]
        self.peers = (*self.others, *servers)
        self._turns = cycle(self.peers)

    def address_of(self, peer_id: int) -> BrokerAddress | None:
        """A leader tells where it is; the voters' record may be older."""
        if peer_id == self.node_id:
            return self.own.endpoints.get(self.listener)
        if self._leader_place is not None and self._leader_place[0] == peer_id:
            return self._leader_place[1]
        return self._bootstrap.get(peer_id) or self.history.latest.address_of(peer_id, self.listener)

    def learn_leader(self, leader_id: int, endpoints: Mapping[int, BrokerAddress]) -> None:
        """Where that leader is, if the endpoints tell."""
        address = endpoints.get(leader_id)
        if address is not None and leader_id != self.node_id:
            self._leader_place = (leader_id, address)

    def can_follow(self, leader_id: int) -> bool:
        """Another node whose address is known."""
        return leader_id not in (NO_NODE, self.node_id) and self.address_of(leader_id) is not None

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

    def send(self, peer_id: int, request: PeerRequest, *, address: BrokerAddress | None = None) -> None:
        """To the address that is known, or to the one that is given."""
        place = self.address_of(peer_id) if address is None else address
        request_id = self.links.begin(peer_id, request, self.now_ms)
        if place is not None:  # None: a voter without the controllers' listener, which will not answer either
            self.effects.append(SendRequest(request_id=request_id, to=peer_id, address=place, request=request))

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
            voter_directory_id=self.history.latest.directory_of(voter_id),
            last_epoch=self.log.last_epoch,
            last_offset=self.log.end,
            is_pre_vote=is_pre_vote,
        )

    def next_in_turn(self) -> int | None:
        """Some other voter or bootstrap server that can be asked now."""
        for _ in self.peers:
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
        elif isinstance(request, AddVoterRequest | RemoveVoterRequest):
            self.reply(request_id, ChangeAnswer(error=error))
            return
        self.reply(request_id, self.answer(kind, error=error))

    def answer(self, kind: type[Answer], *, error: ErrorCode = ErrorCode.none) -> Answer:
        """An answer of that kind with the epoch and its leader as this node knows them."""
        leader_id = self.election.leader_id
        address = None if leader_id == NO_NODE else self.address_of(leader_id)
        endpoints = {} if address is None else {leader_id: address}
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
