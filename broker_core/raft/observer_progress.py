"""What an observer of the quorum has begun: the parts that outlive an event."""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.raft.fetched_records import FollowingBatches
from broker_core.raft.quorum_values import SnapshotId


@dataclass(slots=True)
class SnapshotProgress:
    """A snapshot that is being fetched; `size_bytes` is known with the first answer."""

    snapshot_id: SnapshotId
    position: int = 0
    size_bytes: int | None = None


@dataclass(slots=True)
class Appending:
    """Batches on their way into the log, and the high watermark that came with them."""

    batches: FollowingBatches
    high_watermark: int
