"""One partition's log as a state machine: the offsets of batches, the rolls of segments, and the bounds.

The store requests a plan, applies it to files, and reports that: `plan_append` -> writes -> `on_appended`. If the disk
fails, the machine has not changed and the store undoes its writes. Batches that are already in the log (start-up, other
processes' appends) are added by `replay`. See `append_plan` for where a segment rolls.

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.cluster import AppendResult, PartitionBounds
from broker_core.log.append_plan import AppendPlan, PlacedBatch, plan_runs
from broker_core.log.batch_validation import ValidatedBatches, validate_batches
from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.log.producer_state import (
    NONE_KNOWN,
    AppendOrigin,
    CompletedTransaction,
    ProducerState,
)
from broker_core.log.segment_index_feed import SegmentIndexFeed
from broker_core.log.segment_table import Segment, SegmentTable
from broker_core.log.sparse_index import TimestampOffset
from broker_core.model.exceptions import (
    CorruptBatchError,
    InvalidRecordError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
)
from broker_core.model.limits import MAX_OFFSET
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_header import BatchHeader, WritableBytes, placed_header, write_placement
from broker_core.record.control_records import EndTransactionMarker


@dataclass(frozen=True, slots=True, kw_only=True)
class RollPlan:
    """Close the active segment, open an empty one at `base_offset`."""

    base_offset: int
    closing_time_entry: TimestampOffset | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatePlan:
    """Cut the log to end at `until_offset` or, if that is inside a batch, before this batch.

    Segments in `removed` are removed whole. `cut_base_offset`: the segment that is cut at the first batch whose last
    offset is at or above `until_offset`, and becomes active. None: no segment is left, an empty one begins at
    `until_offset`. Afterwards the machine is recreated from the files, producers from a snapshot at or below the new
    end.
    """

    until_offset: int
    removed: tuple[int, ...]
    cut_base_offset: int | None


class PartitionLog:
    """`feed` follows the active segment; `producers.end_offset` is the log's end.

    Without replicas the high watermark is the log end: pass None, and it follows the log end.
    """

    def __init__(
        self,
        *,
        name: str,
        config: TopicConfig,
        segments: SegmentTable,
        feed: SegmentIndexFeed,
        producers: ProducerState,
        leader_epochs: LeaderEpochs,
        log_start_offset: int = 0,
        high_watermark: int | None = None,
    ) -> None:
        self.name = name
        self.config = config
        self._segments = segments
        self.feed = feed
        self.producers = producers
        self.leader_epochs = leader_epochs
        self.log_start_offset = log_start_offset
        self._high_watermark = high_watermark
        assert feed.base_offset == segments.active.base_offset, f"{name}: feed and table differ on the active segment"
        producers.on_high_watermark(self.high_watermark)

    @property
    def segments(self) -> SegmentTable:
        """Updates the table's active segment to the last batch: done here, not at each append."""
        feed, active = self.feed, self._segments.active
        if active.size_bytes != feed.size_bytes:
            self._segments.put(
                Segment(
                    base_offset=active.base_offset,
                    next_offset=feed.next_offset,
                    size_bytes=feed.size_bytes,
                    max_timestamp_ms=feed.largest.timestamp_ms,
                    first_timestamp_ms=feed.first_timestamp_ms,
                    modified_ms=active.modified_ms,
                    index_size_bytes=active.index_size_bytes,
                )
            )
        return self._segments

    @property
    def log_end_offset(self) -> int:
        return self.feed.next_offset

    @property
    def high_watermark(self) -> int:
        return self.log_end_offset if self._high_watermark is None else self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Below every open transaction, but never below the log start, since deleted records do not block it."""
        unstable_offset = self.producers.first_unstable_offset()
        high_watermark = self.high_watermark
        if unstable_offset is None or unstable_offset >= high_watermark:
            return high_watermark
        return max(unstable_offset, self.log_start_offset)

    def bounds(self) -> PartitionBounds:
        return PartitionBounds(
            log_start_offset=self.log_start_offset,
            last_stable_offset=self.last_stable_offset,
            high_watermark=self.high_watermark,
            log_end_offset=self.log_end_offset,
        )

    def plan_append(
        self,
        batches: WritableBytes,
        *,
        now_ms: int,
        leader_epoch: int | None = None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        header: BatchHeader | None = None,
    ) -> AppendPlan:
        """Validates, assigns offsets, decides rolls. `batches` may be changed in place, even when it is refused.

        `leader_epoch` None: the newest epoch of the log; `header`: that of the only batch, if already read. Raises what
        validate_batches and ProducerState.plan_append raise, and RecordTooLargeError for a batch above segment.bytes.
        """
        validated = validate_batches(
            batches, config=self.config, now_ms=now_ms, name=self.name, origin=origin, header=header
        )
        known = NONE_KNOWN
        if origin is AppendOrigin.CLIENT:
            known = self.producers.find_known_batches(validated.headers)
        latest_epoch = self.leader_epochs.latest_epoch
        epoch = max(latest_epoch, 0) if leader_epoch is None else leader_epoch
        placed = self._place(validated, known.batch_count, epoch, origin)
        for batch in placed:
            write_placement(
                validated.buffer,
                batch.position,
                base_offset=batch.header.base_offset,
                leader_epoch=batch.header.partition_leader_epoch,
            )
        last_offset = placed[-1].header.last_offset if placed else known.last_offset
        return AppendPlan(
            buffer=validated.buffer,
            runs=plan_runs(self.feed, placed, config=self.config, now_ms=now_ms, log_name=self.name),
            result=AppendResult(
                base_offset=known.base_offset if known.batch_count else placed[0].header.base_offset,
                last_offset=last_offset,
                # For a retry Kafka returns the time of the batch in the log, also with create time.
                log_append_time_ms=validated.log_append_time_ms if placed else known.timestamp_ms,
                is_duplicate=not placed,
            ),
            log_end_offset=last_offset + 1 if placed else self.log_end_offset,
            is_new_leader_epoch=max([each.header.partition_leader_epoch for each in placed], default=-1) > latest_epoch,
            now_ms=now_ms,
        )

    def on_appended(self, plan: AppendPlan) -> None:
        """Applies a plan after its bytes were written to the files."""
        for run in plan.runs:
            if run.is_roll:
                self.on_rolled(run.base_offset, now_ms=plan.now_ms)
            assert (run.base_offset, run.file_position) == (self.feed.base_offset, self.feed.size_bytes), (
                f"{self.name}: a plan for byte {run.file_position} of segment {run.base_offset},"
                f" the log is at byte {self.feed.size_bytes} of segment {self.feed.base_offset}"
            )
            for header, marker in zip(run.headers, run.markers, strict=True):
                self._take(header, marker)
            self.feed = run.feed
        if self._high_watermark is None:
            self.producers.on_high_watermark(self.feed.next_offset)

    def replay(self, header: BatchHeader, *, marker: EndTransactionMarker | None = None) -> CompletedTransaction | None:
        """Adds the next batch of the log's files, in the active segment: call `on_rolled` between segments."""
        assert header.base_offset >= self.log_end_offset, f"{self.name}: {header} below end {self.log_end_offset}"
        completed = self._take(header, marker)
        self.feed.add(header)
        if self._high_watermark is None:
            self.producers.on_high_watermark(self.log_end_offset)
        return completed

    def plan_roll(self) -> RollPlan | None:
        """Plans a roll on request; None when the active segment is empty."""
        if self.feed.size_bytes == 0:
            return None
        return RollPlan(base_offset=self.log_end_offset, closing_time_entry=self.feed.copy().close())

    def on_rolled(self, base_offset: int, *, now_ms: int) -> None:
        """Call this when a new, empty active segment exists."""
        assert base_offset >= self.log_end_offset, f"{self.name}: roll to {base_offset} below {self.log_end_offset}"
        segments = self.segments
        self.feed = SegmentIndexFeed(
            base_offset=base_offset, index_interval_bytes=self.config.index_interval_bytes, created_ms=now_ms
        )
        segments.put(Segment(base_offset=base_offset, next_offset=base_offset, size_bytes=0, modified_ms=now_ms))

    def plan_truncate(self, until_offset: int) -> TruncatePlan | None:
        """None: the log already ends at or below `until_offset`."""
        if until_offset >= self.log_end_offset:
            return None
        cut = self.segments.floor(until_offset)
        cut_base_offset = None if cut is None else cut.base_offset
        removed = (segment.base_offset for segment in self.segments)
        return TruncatePlan(
            until_offset=until_offset,
            removed=tuple(base for base in removed if cut_base_offset is None or base > cut_base_offset),
            cut_base_offset=cut_base_offset,
        )

    def advance_high_watermark(self, high_watermark: int) -> bool:
        """Moves it, never back and never above the log end. Returns whether it moved. Only for a log with replicas."""
        assert self._high_watermark is not None, f"{self.name}: the high watermark follows the log end"
        advanced = min(high_watermark, self.log_end_offset)
        if advanced <= self._high_watermark:
            return False
        self._high_watermark = advanced
        self.producers.on_high_watermark(advanced)
        return True

    def advance_log_start_offset(self, log_start_offset: int) -> bool:
        """Raises OffsetOutOfRangeError below 0 and above the high watermark; False when it is not higher than now."""
        if not 0 <= log_start_offset <= self.high_watermark:
            raise OffsetOutOfRangeError(
                f"{self.name}: records can be deleted up to the high watermark {self.high_watermark},"
                f" not up to {log_start_offset}",
                offset=log_start_offset,
                log_start_offset=self.log_start_offset,
                log_end_offset=self.log_end_offset,
            )
        if log_start_offset <= self.log_start_offset:
            return False
        self.log_start_offset = log_start_offset
        self.leader_epochs.truncate_from_start(log_start_offset)
        return True

    def _take(self, header: BatchHeader, marker: EndTransactionMarker | None) -> CompletedTransaction | None:
        """Applies a batch of the log to the producer state and the leader epochs."""
        if header.partition_leader_epoch >= 0:
            self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        return self.producers.replay(header, marker=marker)

    def _place(
        self, validated: ValidatedBatches, known_count: int, leader_epoch: int, origin: AppendOrigin
    ) -> tuple[PlacedBatch, ...]:
        """The new batches with their offsets: after the log's end or, for replicated batches, those of the other
        log."""
        headers: list[BatchHeader] = []
        next_offset = self.log_end_offset
        for header in validated.headers[known_count:]:
            if origin is not AppendOrigin.REPLICATION:
                header = placed_header(header, base_offset=next_offset, leader_epoch=leader_epoch)
            self._check_place(header, next_offset, origin)
            headers.append(header)
            next_offset = header.next_offset
        markers = validated.markers[known_count:]
        completed = self.producers.plan_append(headers, origin=origin, markers=markers)
        return tuple(
            [
                PlacedBatch(header=header, marker=marker, position=position, completed=transaction)
                for header, marker, position, transaction in zip(
                    headers, markers, validated.positions[known_count:], completed, strict=True
                )
            ]
        )

    def _check_place(self, header: BatchHeader, next_offset: int, origin: AppendOrigin) -> None:
        if header.base_offset < next_offset:
            raise CorruptBatchError(
                f"{self.name}: a replicated batch begins at offset {header.base_offset}, but the log already ends at"
                f" {next_offset}",
                offset=header.base_offset,
            )
        is_limited = origin is not AppendOrigin.REPLICATION and not header.is_control
        if is_limited and header.size_bytes > self.config.segment_bytes:
            raise RecordTooLargeError(
                f"{self.name}: a batch of {header.size_bytes} bytes exceeds segment.bytes={self.config.segment_bytes}"
            )
        if header.last_offset >= MAX_OFFSET:
            raise InvalidRecordError(f"{self.name}: no offsets are left after {self.log_end_offset}")
