"""How far a follower is, as its fetches tell the leader."""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.replication.replication_values import UNKNOWN_BROKER_EPOCH, UNKNOWN_OFFSET, PartitionFetch


@dataclass(slots=True)
class FollowerProgress:
    """A fetch from an offset says that everything before it is on the follower's device. Nothing is known before the
    first fetch of the leader's epoch."""

    last_caught_up_ms: int
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    last_fetch_ms: int | None = None
    told_high_watermark: int = UNKNOWN_OFFSET
    """What the follower was told last."""
    _leader_end_at_fetch: int = UNKNOWN_OFFSET

    def on_fetch(self, fetch: PartitionFetch, *, leader_end: int, now_ms: int) -> None:
        """A fetch whose log is a prefix of the leader's. One that reached what was the leader's end at its fetch before
        had caught up then, though the leader has appended since."""
        if fetch.fetch_offset >= leader_end:
            self.last_caught_up_ms = now_ms
        elif self.last_fetch_ms is not None and fetch.fetch_offset >= self._leader_end_at_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset, self.log_start_offset = fetch.fetch_offset, fetch.log_start_offset
        self.broker_epoch, self.last_fetch_ms = fetch.broker_epoch, now_ms
        self._leader_end_at_fetch = leader_end

    def is_caught_up(self, *, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        return self.log_end_offset == leader_end or now_ms - self.last_caught_up_ms <= max_lag_ms
