"""Values that the machines of a replica and what drives them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from broker_core.log.leader_epochs import EpochEnd
from broker_core.model.identifiers import NO_LEADER_EPOCH

NO_REPLICA: Final = -1
UNKNOWN_BROKER_EPOCH: Final = -1
UNKNOWN_OFFSET: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAssignment:
    """A partition as the metadata log has it. `leader_id` is -1 without a leader."""

    leader_id: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStanding:
    """A broker as the metadata log has it: whether its replicas may be in sync."""

    broker_epoch: int
    is_fenced: bool = False
    is_stopping: bool = False

    @property
    def is_alive(self) -> bool:
        return not self.is_fenced and not self.is_stopping


StandingOf = Callable[[int], BrokerStanding | None]
"""None: the broker is not registered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    """Kafka's settings of the same meaning: replica.lag.time.max.ms, replica.fetch.backoff.ms."""

    max_lag_ms: int = 30_000
    fetch_backoff_ms: int = 1000

    @property
    def lag_check_interval_ms(self) -> int:
        return self.max_lag_ms // 2


# Fetching


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPosition:
    """Where a follower fetches from: its log end. `last_fetched_epoch` is the epoch of its last record, -1 if it has
    none."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFetch:
    """A partition of a Fetch request. `replica_id` is -1 for a consumer, `current_leader_epoch` -1 if it knows none,
    `broker_epoch` -1 if its protocol has none."""

    fetch_offset: int
    current_leader_epoch: int = NO_LEADER_EPOCH
    last_fetched_epoch: int = NO_LEADER_EPOCH
    replica_id: int = NO_REPLICA
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    log_start_offset: int = UNKNOWN_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchVerdict:
    """What a leader answers: an error, where the logs part, or records below `until_offset`."""

    error: ErrorCode = ErrorCode.none
    diverging: EpochEnd | None = None
    until_offset: int = UNKNOWN_OFFSET
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFetchAnswer:
    """The same as a follower gets it, with the records."""

    error: ErrorCode = ErrorCode.none
    diverging: EpochEnd | None = None
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    records: bytes = b""


# The in-sync replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberProposal:
    """A partition of an AlterPartition request: members with their broker epochs, -1 where that is not known."""

    members: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(broker_id for broker_id, _ in self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrAnswer:
    """What the controller says of a proposal: an error, or the partition's state with it."""

    error: ErrorCode = ErrorCode.none
    leader_epoch: int = NO_LEADER_EPOCH
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


# Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFetched:
    """Append whole batches as they are, and sync them if the topic's flush.policy says so. `restart_offset`: the log is
    empty, and has to start there first. Answered by `on_written`."""

    records: bytes
    from_offset: int
    until_offset: int
    restart_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatePartition:
    """Remove every record and every leader epoch at and above the offset. Answered by `on_written`."""

    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPartition:
    """Remove everything; the log starts at the offset. Answered by `on_written`."""

    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncPartition:
    """Sync what the log has. Answered by `on_written`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveLeaderEpoch:
    """Add the epoch to the log's epochs, also if no record of it follows."""

    leader_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceLogStart:
    """The log starts at the offset, what is below may be removed. If it is above the high watermark so far, that
    advances in the same list of effects."""

    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkAdvanced:
    """All records below it are committed."""

    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLeaderBounds:
    """Ask the leader for its log start and log end (ListOffsets). Answered by `on_bounds` or `on_no_bounds`."""

    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeIsr:
    """Ask the controller to change the in-sync replicas. Answered by `on_isr_answer`."""

    proposal: MemberProposal


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerAppend:
    """An append with acks=all is replicated, or will not be."""

    request_id: int
    error: ErrorCode = ErrorCode.none


ReplicaEffect = (
    AppendFetched
    | TruncatePartition
    | RestartPartition
    | SyncPartition
    | SaveLeaderEpoch
    | AdvanceLogStart
    | WatermarkAdvanced
    | AskLeaderBounds
    | ProposeIsr
    | AnswerAppend
)
