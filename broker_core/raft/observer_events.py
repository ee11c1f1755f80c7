"""What an observer of the quorum hears and what it wants done: the events and effects of `quorum_observer`.

One request is under way at a time, or one effect on the disk; each effect that says so is answered by its event, and
nothing that depends on it is sent before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode

from broker_core.model.client_settings import BrokerAddress
from broker_core.raft.quorum_values import NO_NODE, ElectionState, SnapshotId
from broker_core.raft.voter_set_history import QuorumControls


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumAnswer:
    """What every answer of the quorum tells: errors, and the leader as the answering node knows it."""

    error: ErrorCode = ErrorCode.none
    leader_id: int = NO_NODE
    leader_epoch: int = -1
    endpoints: Mapping[int, BrokerAddress] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer(QuorumAnswer):
    """`diverging` is (epoch, end offset): the leader's log leaves ours there or before."""

    high_watermark: int = -1
    diverging: tuple[int, int] | None = None
    snapshot_id: SnapshotId | None = None
    records: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotAnswer(QuorumAnswer):
    """A piece of a snapshot, which may end anywhere in a batch. Sizes and positions in bytes."""

    size_bytes: int = 0
    position: int = 0
    chunk: bytes = b""


# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumAnswered:
    """The answer to the request of this id."""

    request_id: int
    answer: FetchAnswer | SnapshotAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumRequestFailed:
    """No answer will come: not connected, disconnected, or no bytes of the protocol. `is_gone`: the port is
    closed, so the process has ended; a hint, which may be wrong."""

    request_id: int
    is_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """Nothing happened, but it is later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionSaved:
    """Answers `SaveElection`: it is on the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesAppended:
    """Answers `AppendBatches`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTruncated:
    """Answers `TruncateLog`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChunkWritten:
    """Answers `WriteSnapshotChunk`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInstalled:
    """Answers `InstallSnapshot`: the log begins at the snapshot's end. `controls`: what it says of the voters."""

    controls: QuorumControls = field(default_factory=QuorumControls)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRefused:
    """Answers `InstallSnapshot`: the file is not a whole snapshot, and the log is as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTaken:
    """This node wrote a snapshot of its own, of committed records, and the log begins at its end or before."""

    snapshot_id: SnapshotId
    log_start_offset: int


ObserverEvent = (
    QuorumAnswered
    | QuorumRequestFailed
    | TimePassed
    | ElectionSaved
    | BatchesAppended
    | LogTruncated
    | SnapshotChunkWritten
    | SnapshotInstalled
    | SnapshotRefused
    | SnapshotTaken
)

# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class SendFetch:
    """Fetch records of the metadata log."""

    request_id: int
    to: BrokerAddress
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    max_wait_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendFetchSnapshot:
    """Fetch a snapshot from a position on."""

    request_id: int
    to: BrokerAddress
    leader_epoch: int
    snapshot_id: SnapshotId
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveElection:
    """Write `quorum-state`, durably. Answered by ElectionSaved."""

    election: ElectionState


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendBatches:
    """Append whole batches with valid checksums, as they are. Answered by BatchesAppended."""

    records: bytes
    from_offset: int
    until_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateLog:
    """Remove every record at and above the offset. Answered by LogTruncated."""

    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSnapshotChunk:
    """Write a piece of the snapshot's file; position 0 replaces the file. Answered by SnapshotChunkWritten."""

    snapshot_id: SnapshotId
    position: int
    chunk: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallSnapshot:
    """Check the file, make it durable and the log begin at its end, as one step. Answered by SnapshotInstalled or
    SnapshotRefused."""

    snapshot_id: SnapshotId


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkAdvanced:
    """All records below it are committed: replay them."""

    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumLeaderChanged:
    """`leader_id` -1: the epoch has no known leader."""

    leader_id: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopObserver:
    """It cannot go on without harm; nothing follows."""

    reason: str


ObserverEffect = (
    SendFetch
    | SendFetchSnapshot
    | SaveElection
    | AppendBatches
    | TruncateLog
    | WriteSnapshotChunk
    | InstallSnapshot
    | HighWatermarkAdvanced
    | QuorumLeaderChanged
    | StopObserver
)
