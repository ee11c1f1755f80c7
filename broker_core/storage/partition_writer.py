"""The one writer of a partition's folder at a time: whoever holds the partition's lock.

What it keeps in memory is a cache of the folder; `refresh` brings it up to date every time the lock was taken. An
append goes: plan, write batches and indexes, fdatasync, publish bounds. Before the last step nothing of it is visible;
if any step fails everything is taken back. If the process dies, `refresh` of the next writer finds the log longer than
was published and keeps what is whole of it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from broker_core.log.append_plan import AppendPlan
from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.log.partition_log import PartitionLog
from broker_core.log.producer_snapshot import encode_snapshot
from broker_core.log.producer_state import AppendOrigin, ProducerState
from broker_core.log.segment_table import Segment
from broker_core.log.sparse_index import TimestampOffset
from broker_core.model.exceptions import StorageError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.ports import File, FileSystem
from broker_core.storage.batch_walk import marker_at, walk_headers
from broker_core.storage.checkpoints import LEADER_EPOCH_FILE_NAME, write_atomically
from broker_core.storage.partition_bounds import BoundsFile, PublishedBounds
from broker_core.storage.partition_mending import mend_partition
from broker_core.storage.recovery import load_partition
from broker_core.storage.segment_appender import AppendMark, SegmentAppender
from broker_core.storage.segment_leftovers import delete_segments, finish_leftovers
from broker_core.storage.segment_names import LOG, SNAPSHOT, FolderListing, segment_path
from broker_core.storage.storage_errors import translated

PRODUCER_ID_EXPIRATION_MS = 86_400_000
"""Kafka's producer.id.expiration.ms: a producer silent for a day, without an open transaction, is forgotten."""


class PartitionWriter:
    """Writes for `PartitionStore`; see there for what the methods promise."""

    def __init__(self, fs: FileSystem, directory: str, topic_partition: TopicPartition, config: TopicConfig) -> None:
        self.fs = fs
        self.directory = directory
        self.topic_partition = topic_partition
        self.config = config
        self._bounds_file: BoundsFile | None = None
        self._published = PublishedBounds()
        self._log: PartitionLog | None = None
        self._appender: SegmentAppender | None = None
        self._known_closed: dict[int, Segment] = {}
        self._last_sync_ms = 0

    @property
    def log(self) -> PartitionLog:
        """The machine. Only between `refresh` and the end of the lock."""
        assert self._log is not None, f"{self.topic_partition}: refresh() comes before any write"
        return self._log

    @property
    def published(self) -> PublishedBounds:
        return self._published

    @property
    def is_synced(self) -> bool:
        """Everything that is published is on the device."""
        return self._published.flushed_size_bytes == self._published.active_size_bytes

    def loaded(self) -> PartitionWriter:
        """Itself, refreshed if a failure made it forget what it knew."""
        if self._log is None:
            self.refresh()
        return self

    def refresh(self) -> None:
        with translated("refreshing", self.directory):
            if self._bounds_file is None:
                self._bounds_file = BoundsFile.open(self.fs, self.directory, writable=True, create=True)
                assert self._bounds_file is not None
            published = self._bounds_file.read()
            if self._log is None or published is None or self._must_reload(published):
                self._reload(published)
            elif published.sequence != self._published.sequence:
                self._catch_up(published)

    def append(self, batches: bytearray, *, now_ms: int, origin: AppendOrigin, is_synced: bool = True) -> AppendPlan:
        plan = self.log.plan_append(batches, now_ms=now_ms, origin=origin)
        if not plan.runs:
            return plan
        appender, before = self.appender, self._published
        with translated("appending", self.directory):
            mark = appender.mark(self.log.feed.size_bytes)
            opened: list[SegmentAppender] = []
            try:
                is_synced = self._write(plan, appender, opened, is_synced=is_synced)
                self.log.on_appended(plan)
                if opened:
                    self._appender = opened[-1]
                self.publish(is_synced=is_synced, is_new_generation=plan.has_roll)
            except BaseException:
                new_bases = [run.base_offset for run in plan.runs if run.is_roll]
                self._take_back(before, appender, mark, opened, new_bases)
                raise
            for replaced in [appender, *opened[:-1]] if opened else []:
                replaced.close()
        return plan

    def roll(self, now_ms: int) -> bool:
        """Closes the active segment and begins a new one; False when it is empty."""
        plan = self.log.plan_roll()
        if plan is None:
            return False
        old, before = self.appender, self._published
        with translated("rolling", self.directory):
            mark = old.mark(self.log.feed.size_bytes)
            opened: list[SegmentAppender] = []
            try:
                self.log.producers.expire(now_ms, producer_id_expiration_ms=PRODUCER_ID_EXPIRATION_MS)
                opened.append(self._begin_segment(old, plan.base_offset, plan.closing_time_entry, self.log.producers))
                self.log.on_rolled(plan.base_offset, now_ms=now_ms)
                self._appender = opened[0]
                self.publish(is_synced=True, is_new_generation=True)
            except BaseException:
                self._take_back(before, old, mark, opened, [plan.base_offset])
                raise
            old.close()
        return True

    def publish(self, *, is_synced: bool, is_new_generation: bool) -> None:
        """Makes the machine's state the one that readers see. A new generation is synced: it names other files."""
        log, before = self.log, self._published
        size_bytes = log.feed.size_bytes
        is_same_segment = before.active_base_offset == log.feed.base_offset
        flushed_bytes = before.flushed_size_bytes if is_same_segment else 0
        self._publish(
            PublishedBounds(
                sequence=before.sequence + 1,
                generation=before.generation + is_new_generation,
                log_start_offset=log.log_start_offset,
                log_end_offset=log.log_end_offset,
                last_stable_offset=log.last_stable_offset,
                active_base_offset=log.feed.base_offset,
                active_size_bytes=size_bytes,
                flushed_size_bytes=size_bytes if is_synced else flushed_bytes,
                active_transaction_index_bytes=self.appender.transaction_index_bytes(),
                max_timestamp_ms=max(before.max_timestamp_ms, log.feed.largest.timestamp_ms),
                dense_from_offset=before.dense_from_offset,
            ),
            is_new_generation=is_new_generation,
        )

    def publish_cut(self, *, log_end_offset: int, active_base_offset: int, active_size_bytes: int) -> None:
        """Readers see the log end here from now on. Before anything is taken away, and on the device."""
        before = self._published
        self._publish(
            replace(
                before,
                sequence=before.sequence + 1,
                generation=before.generation + 1,
                log_end_offset=log_end_offset,
                last_stable_offset=min(before.last_stable_offset, log_end_offset),
                active_base_offset=active_base_offset,
                active_size_bytes=active_size_bytes,
                flushed_size_bytes=min(before.flushed_size_bytes, active_size_bytes)
                if before.active_base_offset == active_base_offset
                else active_size_bytes,
                active_transaction_index_bytes=0,
            ),
            is_new_generation=True,
        )

    def drop_segments(self, base_offsets: tuple[int, ...]) -> None:
        """Deletes the files of segments that the published log start has left behind, and forgets them."""
        delete_segments(self.fs, self.directory, base_offsets)
        for base_offset in base_offsets:
            self.log.segments.remove(base_offset)

    def forget(self) -> None:
        """Something went wrong half-way, or files changed: the next refresh reads the folder anew."""
        self._log = None
        if self._appender is not None:
            self._appender.close()
            self._appender = None

    def changing(self) -> _Changing:
        """Inside, an exception makes the writer forget its cache."""
        return _Changing(self)

    @property
    def appender(self) -> SegmentAppender:
        assert self._appender is not None, f"{self.topic_partition}: refresh() comes before any write"
        return self._appender

    def close(self) -> None:
        self.forget()
        if self._bounds_file is not None:
            self._bounds_file.close()
            self._bounds_file = None

    def _must_reload(self, published: PublishedBounds) -> bool:
        """Other segments, or more in the folder than was published: the tail of a writer that died."""
        if published.generation != self._published.generation or published.sequence < self._published.sequence:
            return True
        if self.appender.log_size_bytes() != published.active_size_bytes:
            return True
        begun = segment_path(self.directory, published.log_end_offset, LOG)
        return published.log_end_offset != published.active_base_offset and self.fs.exists(begun)

    def _reload(self, published: PublishedBounds | None) -> None:
        self.forget()
        self._published = published or PublishedBounds()
        listing = FolderListing.of(self.fs.list_directory(self.directory))
        is_finished = finish_leftovers(self.fs, self.directory, listing)
        if is_finished:
            self._known_closed.clear()
        loaded = load_partition(
            self.fs,
            self.directory,
            self.topic_partition,
            config=self.config,
            published=published,
            known_closed=self._known_closed,
        )
        mend_partition(self.fs, loaded, index_interval_bytes=self.config.index_interval_bytes)
        self._known_closed = dict(loaded.closed)
        with self.changing():
            self._log = loaded.log
            if published is None:
                # Of a log whose bounds are lost nobody knows whether it was ever compacted.
                self._published = PublishedBounds(dense_from_offset=loaded.log.log_end_offset)
            self._appender = SegmentAppender(self.fs, self.directory, loaded.active.base_offset)
            if is_finished or self._differs_from(published):
                self.appender.sync()
                self.publish(is_synced=True, is_new_generation=True)

    def _differs_from(self, published: PublishedBounds | None) -> bool:
        return published is None or (
            published.log_start_offset,
            published.log_end_offset,
            published.last_stable_offset,
            published.active_base_offset,
            published.active_size_bytes,
            published.active_transaction_index_bytes,
        ) != (
            self.log.log_start_offset,
            self.log.log_end_offset,
            self.log.last_stable_offset,
            self.log.feed.base_offset,
            self.log.feed.size_bytes,
            self.appender.transaction_index_bytes(),
        )

    def _catch_up(self, published: PublishedBounds) -> None:
        with self.changing():
            file: File = self.fs.open(segment_path(self.directory, published.active_base_offset, LOG), writable=False)
            try:
                for position, header in walk_headers(
                    file,
                    position=self.log.feed.size_bytes,
                    until_position=published.active_size_bytes,
                    min_offset=self.log.log_end_offset,
                ):
                    self.log.replay(header, marker=marker_at(file, position, header))
            finally:
                file.close()
            if published.active_transaction_index_bytes and not self.appender.transaction_index_bytes():
                self.appender.close()
                self._appender = SegmentAppender(self.fs, self.directory, published.active_base_offset)
            self._published = published

    def _write(
        self, plan: AppendPlan, appender: SegmentAppender, opened: list[SegmentAppender], *, is_synced: bool
    ) -> bool:
        """Says whether the active segment was synced: if that was asked for and the topic's settings want it."""
        buffer = memoryview(plan.buffer)
        producers = self.log.producers
        for slot, run in enumerate(plan.runs):
            if run.is_roll:
                if slot == 0:
                    producers.expire(plan.now_ms, producer_id_expiration_ms=PRODUCER_ID_EXPIRATION_MS)
                else:
                    producers = _after_runs(self.log.producers, plan, slot, str(self.topic_partition))
                last = opened[-1] if opened else appender
                opened.append(self._begin_segment(last, run.base_offset, run.closing_time_entry, producers))
            (opened[-1] if opened else appender).write(run, buffer)
        if plan.is_new_leader_epoch:
            self._write_leader_epochs(plan)
        is_synced = is_synced and self._is_sync_due(plan)
        if is_synced:
            (opened[-1] if opened else appender).sync()
            self._last_sync_ms = plan.now_ms
        return is_synced

    def _is_sync_due(self, plan: AppendPlan) -> bool:
        if self.config.is_synced_per_batch:
            return True
        unsynced_bytes = self._published.active_size_bytes - self._published.flushed_size_bytes
        if unsynced_bytes == 0:
            self._last_sync_ms = plan.now_ms
        unsynced_count = plan.log_end_offset - self._published.active_base_offset if unsynced_bytes else 0
        waited_ms = plan.now_ms - self._last_sync_ms
        # Negative: the clock was put back, and how long it was nobody knows.
        return unsynced_count >= self.config.flush_messages or not 0 <= waited_ms < self.config.flush_ms

    def _begin_segment(
        self,
        last: SegmentAppender,
        base_offset: int,
        closing_time_entry: TimestampOffset | None,
        producers: ProducerState,
    ) -> SegmentAppender:
        last.finish(closing_time_entry)
        snapshot_path = segment_path(self.directory, base_offset, SNAPSHOT)
        write_atomically(self.fs, snapshot_path, encode_snapshot(producers.entries.values()))
        appender = SegmentAppender(self.fs, self.directory, base_offset)
        try:
            self.fs.sync_directory(self.directory)
        except BaseException:
            appender.close()
            raise
        return appender

    def _write_leader_epochs(self, plan: AppendPlan) -> None:
        epochs = LeaderEpochs(self.log.leader_epochs.entries)
        for run in plan.runs:
            for header in run.headers:
                if header.partition_leader_epoch > epochs.latest_epoch:
                    epochs.assign(header.partition_leader_epoch, header.base_offset)
        write_atomically(self.fs, f"{self.directory}/{LEADER_EPOCH_FILE_NAME}", epochs.encode().encode())

    def publish_gaps(self, until_offset: int) -> None:
        """From now on offsets may be missing below `until_offset`: a compaction is about to be put in place."""
        before = self._published
        if until_offset > before.dense_from_offset:
            self._publish(
                replace(
                    before,
                    sequence=before.sequence + 1,
                    generation=before.generation + 1,
                    dense_from_offset=until_offset,
                ),
                is_new_generation=True,
            )

    def _publish(self, bounds: PublishedBounds, *, is_new_generation: bool) -> None:
        assert self._bounds_file is not None, f"{self.topic_partition}: refresh() comes before any write"
        self._bounds_file.publish(bounds)
        self._published = bounds
        if is_new_generation:
            # Into both slots: should one be damaged, the other must not lead to files that are gone.
            self._published = replace(bounds, sequence=bounds.sequence + 1)
            self._bounds_file.publish(self._published)
            self._bounds_file.sync()

    def _take_back(
        self,
        before: PublishedBounds,
        appender: SegmentAppender,
        mark: AppendMark,
        opened: list[SegmentAppender],
        new_bases: list[int],
    ) -> None:
        """As much as the disk lets us; the next refresh reads the folder and does the rest."""
        for new in opened:
            new.close()
        with suppress(OSError, StorageError):
            after = self._published
            if after.sequence != before.sequence:
                # Nothing that readers were told of may go before they are told otherwise.
                self._publish(
                    replace(before, sequence=after.sequence + 1, generation=after.generation + 1),
                    is_new_generation=True,
                )
            delete_segments(self.fs, self.directory, new_bases)
            appender.cut_back(mark)
        self._appender = appender
        self.forget()


class _Changing:
    """Forgets the writer's cache when the block fails."""

    def __init__(self, writer: PartitionWriter) -> None:
        self._writer = writer

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self._writer.forget()


def _after_runs(producers: ProducerState, plan: AppendPlan, slot: int, name: str) -> ProducerState:
    """The producers after the first `slot` runs of an append that is not in the log yet."""
    ahead = ProducerState(name, producers.entries.values(), end_offset=producers.end_offset)
    for run in plan.runs[:slot]:
        for header, marker in zip(run.headers, run.markers, strict=True):
            ahead.replay(header, marker=marker)
    return ahead
