"""What a voter of the quorum hears and what it wants done: the events and effects of `quorum_voter`.

Effects are done in their order. A log's bytes count as written once their effect was done, and as durable when the
FlushLog behind them is answered; at most one flush, and one SaveElection or InstallSnapshot, is under way at a time.
A write that fails ends the machine: it is unknown what is on the device then (KAFKA-10778).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from broker_core.model.client_settings import BrokerAddress
from broker_core.raft.observer_events import (
    AppendBatches,
    ElectionSaved,
    FetchAnswer,
    HighWatermarkAdvanced,
    InstallSnapshot,
    QuorumAnswer,
    QuorumLeaderChanged,
    QuorumRequestFailed,
    SaveElection,
    SnapshotAnswer,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    TimePassed,
    TruncateLog,
    WriteSnapshotChunk,
)
from broker_core.raft.quorum_values import NO_NODE, SnapshotId
from broker_core.raft.voter_set import SUPPORTED_KRAFT_VERSIONS, ReplicaKey, VoterNode

# Requests between the nodes of a quorum


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """Asks for a vote in `epoch`, or as a pre-vote whether one would be given (KIP-996). `voter_id` with its directory
    is the receiver, -1 in versions without it."""

    epoch: int
    candidate_id: int
    last_epoch: int
    last_offset: int
    is_pre_vote: bool
    candidate_directory_id: UUID | None = None
    voter_id: int = NO_NODE
    voter_directory_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpochRequest:
    """A new leader says so to voters that do not fetch from it, and where they reach it: `endpoints` by listener."""

    epoch: int
    leader_id: int
    voter_id: int = NO_NODE
    voter_directory_id: UUID | None = None
    endpoints: Mapping[str, BrokerAddress] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEpochRequest:
    """A leader resigns. `preferred` voters stand for election in this order."""

    epoch: int
    leader_id: int
    preferred: tuple[ReplicaKey, ...]
    endpoints: Mapping[str, BrokerAddress] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFetchRequest:
    """A replica has everything below `fetch_offset` on its device, the last of it from `last_fetched_epoch`."""

    epoch: int
    replica_id: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    max_wait_ms: int
    max_bytes: int
    directory_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFetchRequest:
    """A piece of a snapshot, from a position in bytes on."""

    epoch: int
    replica_id: int
    snapshot_id: SnapshotId
    position: int
    max_bytes: int
    directory_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoterRequest:
    """Make the observer a voter. Answered when that is committed, or as soon as it is in the leader's log."""

    voter: VoterNode
    is_answered_when_committed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveVoterRequest:
    """Take the vote from exactly this replica."""

    voter: ReplicaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateVoterRequest:
    """A voter tells the leader of `epoch` its endpoints and the kraft.versions that it knows."""

    epoch: int
    voter: VoterNode


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionsRequest:
    """Asks a node for the kraft.versions that it knows (ApiVersions)."""


ChangeRequest = AddVoterRequest | RemoveVoterRequest
VoterRequest = (
    VoteRequest
    | BeginEpochRequest
    | EndEpochRequest
    | ReplicaFetchRequest
    | SnapshotFetchRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
)
PeerRequest = VoterRequest | VersionsRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswer(QuorumAnswer):
    """Answers VoteRequest. The answers to BeginEpochRequest, EndEpochRequest and UpdateVoterRequest are plain
    QuorumAnswers."""

    is_granted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAnswer(QuorumAnswer):
    """Answers AddVoterRequest and RemoveVoterRequest; tells neither leader nor epoch."""

    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionsAnswer(QuorumAnswer):
    """Answers VersionsRequest: the lowest and the highest kraft.version; None if the node does not name it."""

    kraft_versions: tuple[int, int] | None = SUPPORTED_KRAFT_VERSIONS


# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReceived:
    """Answered by one SendReply, SendRecords or SendSnapshotChunk, or not at all. A None cluster was not sent."""

    request_id: int
    request: VoterRequest
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAnswered:
    """The answer to the SendRequest of this id."""

    request_id: int
    answer: QuorumAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFlushed:
    """Answers `FlushLog`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsProposed:
    """Whole batches to append as the leader; offsets and epoch are written over theirs. Answered by RecordsAccepted
    or RecordsRefused."""

    proposal_id: int
    records: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ResignRequested:
    """The node is about to stop: a leader resigns."""


VoterEvent = (
    RequestReceived
    | PeerAnswered
    | QuorumRequestFailed
    | TimePassed
    | ElectionSaved
    | LogFlushed
    | SnapshotInstalled
    | SnapshotRefused
    | RecordsProposed
    | SnapshotTaken
    | ResignRequested
)

# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest:
    """Answered by PeerAnswered or QuorumRequestFailed, or not at all. `to` is the node's id, or a number below -1 for
    a bootstrap server, whose id is not known."""

    request_id: int
    to: int
    address: BrokerAddress
    request: PeerRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReply:
    """Answers RequestReceived."""

    request_id: int
    answer: QuorumAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRecords:
    """Answers a ReplicaFetchRequest: `answer` with the batches of the log from `from_offset` on that end at or before
    `until_offset`; at least one, whatever its size. They are read at once."""

    request_id: int
    answer: FetchAnswer
    from_offset: int
    until_offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSnapshotChunk:
    """Answers a SnapshotFetchRequest: `answer` with size, position and bytes of the snapshot."""

    request_id: int
    answer: SnapshotAnswer
    snapshot_id: SnapshotId
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushLog:
    """Make the log as it is now durable. Answered by LogFlushed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsAccepted:
    """Answers RecordsProposed: they are committed when the high watermark is at `until_offset` in this epoch."""

    proposal_id: int
    leader_epoch: int
    from_offset: int
    until_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsRefused:
    """Answers RecordsProposed: this node does not lead."""

    proposal_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VotersAppended:
    """As the leader, behind the records of all earlier proposals: the next one will be at `until_offset`."""

    until_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopVoter:
    """It cannot go on without harm; nothing follows."""

    reason: str


VoterEffect = (
    SendRequest
    | SendReply
    | SendRecords
    | SendSnapshotChunk
    | SaveElection
    | AppendBatches
    | TruncateLog
    | FlushLog
    | WriteSnapshotChunk
    | InstallSnapshot
    | HighWatermarkAdvanced
    | QuorumLeaderChanged
    | RecordsAccepted
    | RecordsRefused
    | VotersAppended
    | StopVoter
)
