"""A voter's log as it knows it: what is written, what of that is on the device, and where its newest snapshot ends.

    log start ............ flushed end ............ log end
              on the device             written only

One flush is under way at a time; what a leader writes meanwhile is in the next one. A follower fetches only when all
is flushed, so no flush is under way that could claim what a truncation or a snapshot has replaced.
"""

from __future__ import annotations

from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.raft.observer_events import AppendBatches, TruncateLog
from broker_core.raft.quorum_values import LogReach, SnapshotId
from broker_core.raft.voter_events import FlushLog, VoterEffect
from broker_core.record.batch_header import BatchHeader


class VoterLog:
    """`reach` is the log as it was found, all of it on the device."""

    def __init__(self, reach: LogReach, snapshot_id: SnapshotId | None) -> None:
        self.reach = reach
        self.snapshot_id = snapshot_id
        self.flushed_end = reach.log_end_offset
        self._claim: int | None = None
        """What the flush under way makes durable: everything below."""
        self._must_flush = False

    @property
    def start(self) -> int:
        return self.reach.log_start_offset

    @property
    def end(self) -> int:
        return self.reach.log_end_offset

    @property
    def last_epoch(self) -> int:
        return self.reach.last_epoch

    @property
    def is_flushed(self) -> bool:
        """All of it is on the device, truncations included."""
        return self._claim is None and not self._must_flush

    def append(self, records: bytes, headers: tuple[BatchHeader, ...], effects: list[VoterEffect]) -> None:
        """Batches that follow the log's end."""
        from_offset = self.end
        for header in headers:
            self.reach.epochs.assign(header.partition_leader_epoch, header.base_offset)
            self.reach.log_end_offset = header.next_offset
        self._must_flush = True
        effects.append(AppendBatches(records=records, from_offset=from_offset, until_offset=self.end))

    def truncate(self, end_offset: int, effects: list[VoterEffect]) -> None:
        assert self.is_flushed, f"a truncation to {end_offset} during a flush"
        self.reach.log_end_offset = self.flushed_end = end_offset
        self.reach.epochs.truncate_from_end(end_offset)
        self._must_flush = True
        effects.append(TruncateLog(end_offset=end_offset))

    def maybe_flush(self, effects: list[VoterEffect]) -> bool:
        """Begins a flush if there is something to flush and none is under way."""
        if self._claim is not None or not self._must_flush:
            return False
        self._claim, self._must_flush = self.end, False
        effects.append(FlushLog())
        return True

    def on_flushed(self) -> None:
        assert self._claim is not None, "a flush ended that was not begun"
        self.flushed_end, self._claim = max(self.flushed_end, self._claim), None

    def on_snapshot_installed(self, snapshot_id: SnapshotId) -> None:
        """The log is empty and begins at the end of the snapshot."""
        assert self.is_flushed, f"an installation of {snapshot_id} during a flush"
        end_offset = snapshot_id.end_offset
        self.snapshot_id = snapshot_id
        self.reach.log_start_offset = self.reach.log_end_offset = self.flushed_end = end_offset
        self.reach.epochs, self.reach.start_epoch = LeaderEpochs(), snapshot_id.epoch

    def on_snapshot_taken(self, snapshot_id: SnapshotId, log_start_offset: int) -> None:
        """A snapshot of the log's own records; the log may begin later now, at the end of a snapshot."""
        self.snapshot_id = snapshot_id
        if log_start_offset > self.start:
            self.reach.start_epoch = snapshot_id.epoch
            self.reach.log_start_offset = log_start_offset
            self.reach.epochs.truncate_from_start(log_start_offset)
            self.flushed_end = max(self.flushed_end, log_start_offset)
