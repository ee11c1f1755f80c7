"""What a replica knows of its log: where it starts and ends, which epoch wrote which part, what is committed.

    log_start_offset <= high_watermark <= log_end_offset
                        synced_end     <= log_end_offset

Methods say what was done or is being done to the files. The replica that drives them calls each only once the effect is
under way, and nothing else is under way then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from broker_core.log.leader_epochs import EpochEnd, LeaderEpochs


@dataclass(slots=True, kw_only=True)
class ReplicaLog:
    """As found on the disk at the start: all of it is synced then. `high_watermark` may be older than it was."""

    log_start_offset: int = 0
    log_end_offset: int = 0
    synced_end: int = 0
    high_watermark: int = 0
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)

    def on_appended(self, leader_epoch: int, base_offset: int, next_offset: int) -> None:
        """A batch."""
        assert base_offset >= self.log_end_offset, f"a batch at {base_offset}, the log ends at {self.log_end_offset}"
        self.epochs.assign(leader_epoch, base_offset)
        self.log_end_offset = next_offset

    def on_synced(self, until_offset: int) -> None:
        self.synced_end = max(self.synced_end, min(until_offset, self.log_end_offset))

    def truncate(self, end_offset: int) -> None:
        """Not below the start. Epochs go even if no record does: one without records begins at the log's end
        (KAFKA-10706)."""
        assert end_offset >= self.log_start_offset, f"truncation to {end_offset}, the start is {self.log_start_offset}"
        self.log_end_offset = min(self.log_end_offset, end_offset)
        self.synced_end = min(self.synced_end, self.log_end_offset)
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        self.epochs.truncate_from_end(end_offset)

    def restart(self, start_offset: int) -> None:
        """Empty, and starts there."""
        self.log_start_offset = self.log_end_offset = self.synced_end = self.high_watermark = start_offset
        self.epochs = LeaderEpochs()

    def advance_start(self, log_start_offset: int) -> bool:
        """Never back, never beyond what is committed; whether it moved."""
        if not self.log_start_offset < log_start_offset <= self.high_watermark:
            return False
        self.log_start_offset = log_start_offset
        self.epochs.truncate_from_start(log_start_offset)
        return True

    def advance_watermark(self, high_watermark: int) -> bool:
        """Never back, never beyond the log's end; whether it moved."""
        advanced = min(high_watermark, self.log_end_offset)
        if advanced <= self.high_watermark:
            return False
        self.high_watermark = advanced
        return True

    def end_of(self, leader_epoch: int) -> EpochEnd:
        return self.epochs.end_of(leader_epoch, log_end_offset=self.log_end_offset)

    def common_end(self, diverging: EpochEnd) -> int:
        """Where to truncate to when the leader's log has `diverging`: to the own end of that epoch, or the leader's if
        that is lower. Records of an epoch that the leader does not know go, too: the next fetch asks again, from an
        older epoch (KIP-279)."""
        own = self.end_of(diverging.leader_epoch)
        if own.leader_epoch == diverging.leader_epoch:
            return min(diverging.end_offset, own.end_offset)
        return own.end_offset if own.leader_epoch >= 0 else min(diverging.end_offset, self.log_end_offset)
