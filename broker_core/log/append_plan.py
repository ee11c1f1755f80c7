"""The file changes of an append: which bytes go to which segment, where the log rolls, which index entries are added.

A segment rolls before a batch by Kafka's rules: with the batch it would exceed segment.bytes; the batch's largest
timestamp is more than segment.ms after the segment's first (or, if the first batch has none, the segment is older than
that); an index is full; the batch's last offset is too far from the segment's base for an index entry.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from broker_core.cluster import AppendResult
from broker_core.log.producer_state import CompletedTransaction
from broker_core.log.segment_index_feed import SegmentIndexFeed
from broker_core.log.sparse_index import (
    OFFSET_INDEX_ENTRY_BYTES,
    TIME_INDEX_ENTRY_BYTES,
    OffsetPosition,
    TimestampOffset,
)
from broker_core.log.transaction_index import AbortedTransactionEntry
from broker_core.model.limits import INDEX_ENTRY_OFFSET_DELTA_MAX
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_header import BatchHeader, WritableBytes
from broker_core.record.control_records import EndTransactionMarker


class SegmentRun(NamedTuple):
    """Batches of an append that go to one segment, and their index entries.

    A run with `is_roll` first closes the active segment (`closing_time_entry` goes to its time index, a producer
    snapshot is taken at `base_offset`) and opens a segment at `base_offset`.
    """

    is_roll: bool
    file_position: int
    """Position in the segment's file where the run begins: the segment's size so far."""
    from_position: int
    until_position: int
    """Range of bytes of the plan's buffer."""
    headers: tuple[BatchHeader, ...]
    markers: tuple[EndTransactionMarker | None, ...]
    closing_time_entry: TimestampOffset | None
    """The last time entry of the segment that the roll closes."""
    feed: SegmentIndexFeed
    """The segment's feed after the run. The log takes it over, so a plan can be applied only once."""
    offset_entries: tuple[OffsetPosition, ...]
    time_entries: tuple[TimestampOffset, ...]
    aborted_transactions: tuple[AbortedTransactionEntry, ...]

    @property
    def base_offset(self) -> int:
        """Of the segment."""
        return self.feed.base_offset


class AppendPlan(NamedTuple):
    """The plan of an append. `buffer` has offsets and leader epoch in place.

    No runs: every batch is a known retry, `result` has its offsets, and there is nothing to write.
    """

    buffer: WritableBytes
    runs: tuple[SegmentRun, ...]
    result: AppendResult
    log_end_offset: int
    is_new_leader_epoch: bool
    """Write the leader-epoch checkpoint after this append."""
    now_ms: int

    @property
    def has_roll(self) -> bool:
        # Only the first run may continue the active segment.
        return bool(self.runs) and (self.runs[0].is_roll or len(self.runs) > 1)


class PlacedBatch(NamedTuple):
    """One batch of an append: its header with assigned offsets, its bytes in the buffer, the transaction it
    completes."""

    header: BatchHeader
    marker: EndTransactionMarker | None
    position: int
    completed: CompletedTransaction | None


@dataclass(slots=True, kw_only=True)
class _RunDraft:
    is_roll: bool
    feed: SegmentIndexFeed
    file_position: int
    from_position: int
    closing_time_entry: TimestampOffset | None
    batches: list[PlacedBatch] = field(default_factory=list)
    offset_entries: list[OffsetPosition] = field(default_factory=list)
    time_entries: list[TimestampOffset] = field(default_factory=list)

    def add(self, batch: PlacedBatch) -> None:
        entries = self.feed.add(batch.header)
        self.batches.append(batch)
        if entries.offset_entry is not None:
            self.offset_entries.append(entries.offset_entry)
        if entries.time_entry is not None:
            self.time_entries.append(entries.time_entry)

    def finish(self) -> SegmentRun:
        last = self.batches[-1]
        return SegmentRun(
            is_roll=self.is_roll,
            file_position=self.file_position,
            from_position=self.from_position,
            until_position=last.position + last.header.size_bytes,
            headers=tuple([batch.header for batch in self.batches]),
            markers=tuple([batch.marker for batch in self.batches]),
            closing_time_entry=self.closing_time_entry,
            feed=self.feed,
            offset_entries=tuple(self.offset_entries),
            time_entries=tuple(self.time_entries),
            aborted_transactions=tuple(
                [
                    aborted_entry(batch.completed)
                    for batch in self.batches
                    if batch.completed and batch.completed.is_aborted
                ]
            ),
        )


def plan_runs(
    feed: SegmentIndexFeed, batches: Sequence[PlacedBatch], *, config: TopicConfig, now_ms: int, log_name: str = ""
) -> tuple[SegmentRun, ...]:
    """Distributes the batches over the active segment (`feed` follows it and is not changed) and the ones after it.
    `log_name`: see `roll_jitter_ms`."""
    feed = feed.copy()
    if len(batches) == 1 and not must_roll(feed, batches[0].header, config=config, now_ms=now_ms, log_name=log_name):
        return (_only_run(feed, batches[0]),)
    drafts: list[_RunDraft] = []
    for batch in batches:
        is_roll = must_roll(feed, batch.header, config=config, now_ms=now_ms, log_name=log_name)
        if is_roll or not drafts:
            closing_time_entry = feed.close() if is_roll else None
            if is_roll:
                feed = SegmentIndexFeed(
                    base_offset=batch.header.base_offset,
                    index_interval_bytes=config.index_interval_bytes,
                    created_ms=now_ms,
                )
            drafts.append(
                _RunDraft(
                    is_roll=is_roll,
                    feed=feed,
                    file_position=feed.size_bytes,
                    from_position=batch.position,
                    closing_time_entry=closing_time_entry,
                )
            )
        drafts[-1].add(batch)
    return tuple([draft.finish() for draft in drafts])


def _only_run(feed: SegmentIndexFeed, batch: PlacedBatch) -> SegmentRun:
    """For an append of one batch, as nearly all are. Changes the feed."""
    header, marker, position, completed = batch
    file_position = feed.size_bytes
    offset_entry, time_entry = feed.add(header)
    return SegmentRun(
        is_roll=False,
        file_position=file_position,
        from_position=position,
        until_position=position + header.size_bytes,
        headers=(header,),
        markers=(marker,),
        closing_time_entry=None,
        feed=feed,
        offset_entries=() if offset_entry is None else (offset_entry,),
        time_entries=() if time_entry is None else (time_entry,),
        aborted_transactions=(aborted_entry(completed),) if completed and completed.is_aborted else (),
    )


def must_roll(feed: SegmentIndexFeed, header: BatchHeader, *, config: TopicConfig, now_ms: int, log_name: str) -> bool:
    """Whether the batch must open a new segment. Not called for an empty segment, which would stay empty forever."""
    size_bytes, last_offset = feed.size_bytes, header.last_offset
    if size_bytes == 0:
        return last_offset - feed.base_offset > INDEX_ENTRY_OFFSET_DELTA_MAX
    if feed.first_timestamp_ms >= 0:
        waited_ms = header.max_timestamp - feed.first_timestamp_ms
    else:
        waited_ms = now_ms - feed.created_ms if feed.created_ms >= 0 else 0
    # The time index keeps a last slot free for the entry that closing the segment writes.
    return (
        size_bytes + header.size_bytes > config.segment_bytes
        or waited_ms > config.segment_ms - roll_jitter_ms(log_name, feed.base_offset, config)
        or feed.offset_entry_count >= config.segment_index_bytes // OFFSET_INDEX_ENTRY_BYTES
        or feed.time_entry_count >= config.segment_index_bytes // TIME_INDEX_ENTRY_BYTES - 1
        or last_offset - feed.base_offset > INDEX_ENTRY_OFFSET_DELTA_MAX
    )


def roll_jitter_ms(log_name: str, base_offset: int, config: TopicConfig) -> int:
    """How much earlier than segment.ms a segment rolls: less than segment.jitter.ms. Derived from the segment's name:
    the same after a restart, and different for partitions that began together."""
    most_ms = min(config.segment_jitter_ms, config.segment_ms)
    return zlib.crc32(f"{log_name}/{base_offset}".encode()) % most_ms if most_ms else 0


def aborted_entry(completed: CompletedTransaction) -> AbortedTransactionEntry:
    """The transaction-index entry of an aborted transaction."""
    return AbortedTransactionEntry(
        producer_id=completed.producer_id,
        first_offset=completed.first_offset,
        last_offset=completed.last_offset,
        last_stable_offset=completed.last_stable_offset,
    )
