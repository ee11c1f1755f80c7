"""Values that everything about the metadata quorum shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from broker_core.log.leader_epochs import LeaderEpochs

NO_NODE: Final = -1
UNKNOWN_HIGH_WATERMARK: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotId:
    """A snapshot of all records below `end_offset`; `epoch` is that of the last of them."""

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    """What a node remembers of elections, in `quorum-state`. `leader_id` is -1 if the epoch has no known leader,
    `voted_id` if this node gave no vote in it. A static voter has no directory."""

    leader_epoch: int = 0
    leader_id: int = NO_NODE
    voted_id: int = NO_NODE
    voted_directory_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaIdentity:
    """Who fetches: the node, the directory of its log, and its cluster. A None cluster is any."""

    node_id: int
    directory_id: UUID
    cluster_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumTimings:
    """Kafka's settings of the same names, in ms. An election's timeout is drawn from `election_timeout_ms` to twice
    that."""

    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 1000
    fetch_max_wait_ms: int = 500
    fetch_timeout_ms: int = 2000
    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000

    @property
    def check_quorum_timeout_ms(self) -> int:
        """A leader that no majority fetched from for so long resigns."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def stagger_ms(self) -> int:
        """Between voters that learn at the same time that their leader is gone: time for an election."""
        return self.election_timeout_ms // 8

    @property
    def begin_epoch_period_ms(self) -> int:
        """A leader writes to voters that did not fetch for so long."""
        return self.fetch_timeout_ms // 2


@dataclass(slots=True, kw_only=True)
class LogReach:
    """What a machine knows of its log: [start, end), and which epoch wrote which part of it.

    `start_epoch` is that of the snapshot which ends where the log starts; 0 without one.
    """

    log_start_offset: int = 0
    log_end_offset: int = 0
    epochs: LeaderEpochs
    start_epoch: int = 0

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, which may be in the snapshot; 0 where there was none, as Kafka sends it."""
        return max(self.epochs.latest_epoch, self.start_epoch)
