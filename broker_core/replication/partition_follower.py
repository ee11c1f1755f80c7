"""A follower of a partition in one leader epoch: fetches, appends, truncates. See `follower_table` for its states.

    fetch_position() ──► Fetch ──► on_answer ──► AppendFetched, TruncatePartition ──► on_written ──► the next position

The position is the own log end, and nothing is truncated but what the leader says to be different: never to the high
watermark, which may lag behind what was acknowledged (KIP-101). A fetch acknowledges everything before its offset, so
the next position is told only after the write before it is durable.
"""

from __future__ import annotations

from broker_core.replication.fetched_batches import appendable_prefix
from broker_core.replication.follower_table import TABLE, FollowerReaction, FollowerState, Heard, heard_error
from broker_core.replication.replica_log import ReplicaLog
from broker_core.replication.replication_values import (
    AdvanceLogStart,
    AppendFetched,
    AskLeaderBounds,
    FetchPosition,
    PartitionAssignment,
    ReplicaEffect,
    ReplicaFetchAnswer,
    ReplicationSettings,
    RestartPartition,
    SyncPartition,
    TruncatePartition,
    WatermarkAdvanced,
)


class PartitionFollower:
    """`leader_id` is -1 while the partition has no leader: then it waits."""

    def __init__(self, *, assignment: PartitionAssignment, log: ReplicaLog, settings: ReplicationSettings) -> None:
        self.assignment = assignment
        self.log = log
        self.state = FollowerState.FETCHING
        self._settings = settings
        self._resume_ms = 0
        self._offered: ReplicaFetchAnswer | None = None
        """The answer whose records are being written."""

    @property
    def leader_epoch(self) -> int:
        return self.assignment.leader_epoch

    @property
    def next_timer_ms(self) -> int | None:
        return self._resume_ms if self.state is FollowerState.PAUSED else None

    def begin(self) -> list[ReplicaEffect]:
        """What this broker appended as a leader must be on its device before it fetches on."""
        if self.log.synced_end >= self.log.log_end_offset:
            return []
        self.state = FollowerState.WRITING
        return [SyncPartition()]

    def on_assignment(self, assignment: PartitionAssignment) -> None:
        """A newer partition epoch of the same leader epoch."""
        self.assignment = assignment

    # Fetching

    def fetch_position(self) -> FetchPosition | None:
        """None: not now."""
        if self.state is not FollowerState.FETCHING or self.assignment.leader_id < 0:
            return None
        return self._position()

    def _position(self) -> FetchPosition:
        return FetchPosition(
            leader_epoch=self.leader_epoch,
            fetch_offset=self.log.log_end_offset,
            last_fetched_epoch=self.log.epochs.latest_epoch,
            log_start_offset=self.log.log_start_offset,
        )

    def on_answer(self, position: FetchPosition, answer: ReplicaFetchAnswer, now_ms: int) -> list[ReplicaEffect]:
        """The answer to a fetch from the position."""
        if position != self._position():
            return []
        if answer.error:
            heard = heard_error(answer.error)
        elif answer.diverging is not None:
            heard = Heard.DIVERGENCE
        else:
            heard = Heard.RECORDS if answer.records else Heard.NOTHING_NEW
        match TABLE[self.state][heard]:
            case FollowerReaction.APPEND:
                return self._append(answer, now_ms)
            case FollowerReaction.ADVANCE:
                return self._advance(answer)
            case FollowerReaction.TRUNCATE:
                return self._truncate(answer)
            case FollowerReaction.ASK_BOUNDS:
                self.state = FollowerState.ASKING_BOUNDS
                return [AskLeaderBounds(leader_epoch=self.leader_epoch)]
            case FollowerReaction.FENCE:
                self.state = FollowerState.FENCED
            case FollowerReaction.PAUSE:
                self._pause(now_ms)
        return []

    def on_no_answer(self, now_ms: int) -> None:
        """No answer will come to the request under way, be it for records or for bounds."""
        if TABLE[self.state][Heard.NO_ANSWER] is FollowerReaction.PAUSE:
            self._pause(now_ms)

    def _append(self, answer: ReplicaFetchAnswer, now_ms: int) -> list[ReplicaEffect]:
        if self.log.log_start_offset < self.log.log_end_offset <= answer.log_start_offset:
            # The leader has deleted all that is here. Its first batch may begin before its start, inside this log.
            return self._restart(answer.log_start_offset)
        prefix = appendable_prefix(answer.records, self.log, leader_epoch=self.leader_epoch)
        if not prefix.headers:
            self._pause(now_ms)
            return []
        restart_offset = prefix.restart_offset(self.log)
        if restart_offset is not None:
            self.log.restart(restart_offset)
        effect = AppendFetched(
            records=answer.records[: prefix.size_bytes],
            from_offset=self.log.log_end_offset,
            until_offset=prefix.headers[-1].next_offset,
            restart_offset=restart_offset,
        )
        for header in prefix.headers:
            self.log.on_appended(header.partition_leader_epoch, header.base_offset, header.next_offset)
        self._offered = answer
        self.state = FollowerState.WRITING
        return [effect]

    def _advance(self, answer: ReplicaFetchAnswer) -> list[ReplicaEffect]:
        """The log start first: what the leader has deleted may differ here, and must not become visible."""
        effects: list[ReplicaEffect] = []
        has_advanced = self.log.advance_watermark(answer.high_watermark)
        if self.log.advance_start(answer.log_start_offset):
            effects.append(AdvanceLogStart(log_start_offset=self.log.log_start_offset))
        if has_advanced:
            effects.append(WatermarkAdvanced(high_watermark=self.log.high_watermark))
        return effects

    def _truncate(self, answer: ReplicaFetchAnswer) -> list[ReplicaEffect]:
        assert answer.diverging is not None
        return self._write_truncation(self.log.common_end(answer.diverging))

    def _write_truncation(self, end_offset: int) -> list[ReplicaEffect]:
        if end_offset < self.log.log_start_offset:
            return self._restart(end_offset)
        self.log.truncate(end_offset)
        self.state = FollowerState.WRITING
        return [TruncatePartition(end_offset=end_offset)]

    def _restart(self, start_offset: int) -> list[ReplicaEffect]:
        self.log.restart(start_offset)
        self.state = FollowerState.WRITING
        return [RestartPartition(start_offset=start_offset)]

    # Bounds

    def on_bounds(
        self, leader_epoch: int, *, log_start_offset: int, log_end_offset: int, now_ms: int
    ) -> list[ReplicaEffect]:
        """Those of the leader, as it told in that epoch."""
        is_awaited = TABLE[self.state][Heard.BOUNDS] is FollowerReaction.JUDGE_BOUNDS
        if not is_awaited or leader_epoch != self.leader_epoch:
            return []
        if log_end_offset < self.log.log_end_offset:
            return self._write_truncation(log_end_offset)
        if log_start_offset > self.log.log_end_offset:
            return self._restart(log_start_offset)
        self._pause(now_ms)
        return []

    # Writes, time

    def on_written(self) -> list[ReplicaEffect]:
        """The write under way is durable."""
        assert TABLE[self.state][Heard.WRITTEN] is FollowerReaction.RESUME, self.state
        self.state = FollowerState.FETCHING
        self.log.on_synced(self.log.log_end_offset)
        offered, self._offered = self._offered, None
        return [] if offered is None else self._advance(offered)

    def on_write_failed(self) -> None:
        self.state = FollowerState.FAILED

    def _pause(self, now_ms: int) -> None:
        self.state = FollowerState.PAUSED
        self._resume_ms = now_ms + self._settings.fetch_backoff_ms

    def on_time(self, now_ms: int) -> None:
        is_paused = TABLE[self.state][Heard.PAUSE_OVER] is FollowerReaction.RESUME
        if is_paused and now_ms >= self._resume_ms:
            self.state = FollowerState.FETCHING
