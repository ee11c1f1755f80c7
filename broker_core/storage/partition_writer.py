"""The writer of a partition's folder. Only the holder of the partition's lock uses it, so there is one at a time.

Its memory is a cache of the folder; `refresh` updates it each time the lock was acquired. `append_group` grows the log,
`maintenance` shortens it, `compaction_run` compacts it. Each ends with `publish`, before which nothing is visible. If
the process dies, `refresh` of the next writer finds the log longer than was published and keeps its whole batches, or
cuts it: see `WritablePartition.open`.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.log.partition_log import PartitionLog
from broker_core.log.producer_state import ProducerState
from broker_core.log.segment_table import Segment
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.ports import File, FileSystem
from broker_core.storage.batch_walk import marker_at, walk_headers
from broker_core.storage.partition_bounds import BoundsFile, PublishedBounds
from broker_core.storage.partition_repair import repair_partition
from broker_core.storage.recovery import load_partition
from broker_core.storage.segment_appender import SegmentAppender
from broker_core.storage.segment_leftovers import delete_segments, finish_leftovers
from broker_core.storage.segment_names import LOG, FolderListing, segment_path
from broker_core.storage.storage_errors import translated


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedProducers:
    """The producers' state when the bounds with this sequence were published. It has more than the files: a snapshot
    has only each producer's last batch, and compaction keeps no more of them."""

    bounds_sequence: int
    producers: ProducerState


class PartitionWriter:
    """Writes for `WritablePartition`, which documents the methods."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        *,
        keeps_unpublished: bool = True,
    ) -> None:
        self.fs = fs
        self.directory = directory
        self.topic_partition = topic_partition
        self.config = config
        self._keeps_unpublished = keeps_unpublished
        self._bounds_file: BoundsFile | None = None
        self._published = PublishedBounds()
        self._log: PartitionLog | None = None
        self._appender: SegmentAppender | None = None
        self._known_closed: dict[int, Segment] = {}
        self._remembered: RememberedProducers | None = None
        self._earlier: ProducerState | None = None
        """The producers before the cache was dropped."""
        self._last_sync_ms = 0

    @property
    def log(self) -> PartitionLog:
        """The log machine. Valid only between `refresh` and the release of the lock."""
        assert self._log is not None, f"{self.topic_partition}: refresh() comes before any write"
        return self._log

    @property
    def published(self) -> PublishedBounds:
        return self._published

    @property
    def is_synced(self) -> bool:
        """Everything that is published is on the device."""
        return self._published.flushed_size_bytes == self._published.active_size_bytes

    @property
    def is_loaded(self) -> bool:
        return self._log is not None

    def loaded(self) -> PartitionWriter:
        """Returns itself, refreshed if an error dropped its cache."""
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

    def is_sync_due(self, now_ms: int) -> bool:
        """Whether the topic's settings require a sync of the log now."""
        if self.config.is_synced_per_batch:
            return True
        unsynced_bytes = self._published.active_size_bytes - self._published.flushed_size_bytes
        if unsynced_bytes == 0:
            self._last_sync_ms = now_ms
        unsynced_count = self.log.log_end_offset - self._published.active_base_offset if unsynced_bytes else 0
        waited_ms = now_ms - self._last_sync_ms
        # Negative: the clock was set back, and the real time since then is unknown.
        return unsynced_count >= self.config.flush_messages or not 0 <= waited_ms < self.config.flush_ms

    def on_synced(self, now_ms: int) -> None:
        self._last_sync_ms = now_ms

    def flush(self) -> None:
        """Syncs everything that is published, and its bounds."""
        with translated("flushing", self.directory):
            if not self.is_synced:
                self.appender.sync()
                self.publish(is_synced=True, is_new_generation=False)
            assert self._bounds_file is not None, f"{self.topic_partition}: refresh() comes before any write"
            self._bounds_file.sync()

    def publish(self, *, is_synced: bool, is_new_generation: bool, is_growth: bool = False) -> None:
        """Publishes the log machine's state to readers. A new generation is synced, because it names different files.

        `is_growth`: all files of the older bounds still exist, and recovery finds what follows them without the new
        bounds. Then one write publishes them and nothing is synced: if a second step failed, it would be too late to
        undo what readers have seen.
        """
        log, before = self.log, self._published
        feed = log.feed
        size_bytes = feed.size_bytes
        is_same_segment = before.active_base_offset == feed.base_offset
        flushed_bytes = before.flushed_size_bytes if is_same_segment else 0
        self._publish(
            PublishedBounds(
                sequence=before.sequence + 1,
                generation=before.generation + is_new_generation,
                log_start_offset=log.log_start_offset,
                log_end_offset=feed.next_offset,
                last_stable_offset=log.last_stable_offset,
                active_base_offset=feed.base_offset,
                active_size_bytes=size_bytes,
                flushed_size_bytes=size_bytes if is_synced else flushed_bytes,
                active_transaction_index_bytes=self.appender.transaction_index_bytes(),
                max_timestamp_ms=max(before.max_timestamp_ms, feed.largest.timestamp_ms),
                dense_from_offset=before.dense_from_offset,
            ),
            is_new_generation=is_new_generation,
            is_growth=is_growth,
        )

    def publish_cut(self, *, log_end_offset: int, active_base_offset: int, active_size_bytes: int) -> None:
        """Publishes a lower log end. Synced, and before any file is cut or removed."""
        before = self._published
        self._publish(
            before._replace(
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

    def is_visible_after(self, before: PublishedBounds) -> bool:
        """Whether readers may have seen newer bounds than `before`. Asks the file: an interrupt may have come between
        its write and the next step."""
        assert self._bounds_file is not None, f"{self.topic_partition}: refresh() comes before any write"
        try:
            newest = self._bounds_file.read()
        except OSError:
            newest = None
        return (newest or self._published).sequence != before.sequence

    def drop_segments(self, base_offsets: tuple[int, ...]) -> None:
        """Deletes the files of segments below the published log start, and removes them from the segment table."""
        delete_segments(self.fs, self.directory, base_offsets)
        for base_offset in base_offsets:
            self.log.segments.remove(base_offset)

    def forget(self) -> None:
        """Drops the cache after an error half-way or a change of files: the next refresh reads the folder again."""
        if self._log is not None:
            self._earlier = self._log.producers
        self._log = None
        if self._appender is not None:
            self._appender.close()
            self._appender = None

    @property
    def remembered_producers(self) -> RememberedProducers | None:
        """For the next writer of this folder. None: not loaded, or not trusted after an error."""
        if self._log is None:
            return self._remembered
        return RememberedProducers(bounds_sequence=self._published.sequence, producers=self._log.producers)

    def remember_producers(self, remembered: RememberedProducers) -> None:
        """Uses them at the next refresh. If another writer published anything meanwhile, only what fits."""
        self._remembered = remembered

    def reload_segments(self) -> None:
        """Reads the folder again after compaction replaced closed segments. Keeps all producers."""
        self._remembered = self.remembered_producers
        self.forget()
        self.refresh()

    def changing(self) -> _Changing:
        """Inside, an exception makes the writer forget its cache."""
        return _Changing(self)

    @property
    def appender(self) -> SegmentAppender:
        assert self._appender is not None, f"{self.topic_partition}: refresh() comes before any write"
        return self._appender

    def use_appender(self, appender: SegmentAppender) -> None:
        """Replaces the active segment's appender."""
        self._appender = appender

    def close(self) -> None:
        self.forget()
        if self._bounds_file is not None:
            self._bounds_file.close()
            self._bounds_file = None

    def _must_reload(self, published: PublishedBounds) -> bool:
        """The set of segments changed, or the folder has more than was published: the tail of a writer that died."""
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
            listing = FolderListing.of(self.fs.list_directory(self.directory))
        loaded = load_partition(
            self.fs,
            self.directory,
            self.topic_partition,
            config=self.config,
            published=published,
            known_closed=self._known_closed,
            listing=listing,
            keeps_unpublished=self._keeps_unpublished,
        )
        repair_partition(self.fs, loaded, index_interval_bytes=self.config.index_interval_bytes)
        self._known_closed = dict(loaded.closed)
        with self.changing():
            self._log = loaded.log
            self._take_remembered(published)
            if published is None:
                # If the bounds are lost, it is unknown whether the log was ever compacted.
                self._published = PublishedBounds(dense_from_offset=loaded.log.log_end_offset)
            self._appender = SegmentAppender(self.fs, self.directory, loaded.active.base_offset)
            if is_finished or self._differs_from(published):
                if loaded.log.feed.size_bytes:
                    self.appender.sync()
                self.publish(is_synced=True, is_new_generation=True)

    def _take_remembered(self, published: PublishedBounds | None) -> None:
        remembered, self._remembered = self._remembered, None
        earlier, self._earlier = self._earlier, None
        if (
            remembered is not None
            and published is not None
            and remembered.bounds_sequence == published.sequence
            and remembered.producers.end_offset == self.log.log_end_offset
        ):
            self.log.producers = remembered.producers
            return
        for known in (earlier, None if remembered is None else remembered.producers):
            if known is not None:
                self.log.producers.remember_earlier(known)

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
            self.appender.learn_sizes()
            if published.active_transaction_index_bytes and not self.appender.transaction_index_bytes():
                self.appender.close()
                self._appender = SegmentAppender(self.fs, self.directory, published.active_base_offset)
            self._published = published

    def publish_gaps(self, until_offset: int) -> None:
        """Allows offset gaps below `until_offset`, before a compaction is put in place."""
        before = self._published
        if until_offset > before.dense_from_offset:
            self._publish(
                before._replace(
                    sequence=before.sequence + 1,
                    generation=before.generation + 1,
                    dense_from_offset=until_offset,
                ),
                is_new_generation=True,
            )

    def _publish(self, bounds: PublishedBounds, *, is_new_generation: bool, is_growth: bool = False) -> None:
        assert self._bounds_file is not None, f"{self.topic_partition}: refresh() comes before any write"
        self._bounds_file.publish(bounds)
        self._published = bounds
        if is_new_generation and not is_growth:
            # Into both slots: if one is damaged, the other must not name files that are gone.
            self._published = bounds._replace(sequence=bounds.sequence + 1)
            self._bounds_file.publish(self._published)
            self._bounds_file.sync()


class _Changing:
    """Forgets the writer's cache when the block fails."""

    def __init__(self, writer: PartitionWriter) -> None:
        self._writer = writer

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self._writer.forget()
