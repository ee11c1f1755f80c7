"""When a node takes a snapshot of what is committed: after so many bytes of records, or so long."""

from __future__ import annotations

from broker_core.log_directory.committed_image import CommittedImage
from broker_core.raft.quorum_values import SnapshotId


class SnapshotSchedule:
    def __init__(self, committed: CommittedImage, *, max_bytes: int, interval_ms: int, now_ms: int) -> None:
        self._committed = committed
        self._max_bytes, self._interval_ms = max_bytes, interval_ms
        self._last_ms = now_ms

    def is_due(self, now_ms: int) -> bool:
        is_long_ago = now_ms - self._last_ms >= self._interval_ms
        return is_long_ago or self._committed.bytes_since_snapshot >= self._max_bytes

    def maybe_take(self, now_ms: int) -> SnapshotId | None:
        """On the loop: the image must not change meanwhile. None: there is nothing new."""
        snapshot_id = self._committed.maybe_snapshot(now_ms=now_ms)
        if snapshot_id is not None:
            self._last_ms = now_ms
        return snapshot_id
