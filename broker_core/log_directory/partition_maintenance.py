"""Retention, compaction and key filters of one partition.

Compaction reads and writes for a long time without the partition's lock; a separate lock file, `.compaction.lock`,
excludes a second compactor of the same partition.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from broker_core.log.retention import plan_retention
from broker_core.log.segment_table import Segment
from broker_core.log_directory.key_filter_maintenance import KeyFilterMaintenance
from broker_core.log_directory.partition_access import PartitionAccess
from broker_core.model.exceptions import StorageError, StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import COMPACTION_MEMORY_BYTES
from broker_core.ports import Clock, Entropy
from broker_core.storage.compaction_run import CleanedSegments, CompactionJob, CompactionReport
from broker_core.storage.readable_partition import ReadablePartition
from broker_core.storage.writable_partition import WritablePartition

COMPACTION_LOCK_FILE_NAME: Final = ".compaction.lock"

MaintenanceProgress = Callable[[TopicPartition, int, int], None]
"""Called with the next partition, the number of finished ones, and their total."""

_DIGEST_KEY_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport:
    """The result for one partition. Retention deletes whole segments and counts their offsets, records and gaps,
    without reading them. `error`: what stopped the maintenance, or None."""

    partition: TopicPartition
    deleted_segment_count: int = 0
    deleted_offset_count: int = 0
    compaction: CompactionReport = field(default_factory=CompactionReport)
    key_filter_count: int = 0
    error: str | None = None


class PartitionMaintenance:
    """Maintains any partition of `access`. Keeps records at or after `pinned_offset(partition)`, even old ones."""

    def __init__(
        self,
        access: PartitionAccess,
        clock: Clock,
        entropy: Entropy,
        *,
        pinned_offset: Callable[[TopicPartition], int | None],
        compaction_memory_bytes: Callable[[], int] = lambda: COMPACTION_MEMORY_BYTES,
        is_cleaner_enabled: bool = True,
        stable_until: Callable[[TopicPartition], int | None] = lambda partition: None,
    ) -> None:
        """`compaction_memory_bytes`: for the keys of one pass. `is_cleaner_enabled` False: compacted topics are not
        changed and, as in Kafka, not deleted from by retention either."""
        self._pinned_offset = pinned_offset
        self._stable_until = stable_until
        self._compaction_memory_bytes = compaction_memory_bytes
        self._is_cleaner_enabled = is_cleaner_enabled
        self._access = access
        self._key_filters = KeyFilterMaintenance(access)
        self._clock = clock
        self._entropy = entropy

    def is_due(self, partition: TopicPartition, *, retains: bool = True) -> bool:
        """Whether `maintain` could find anything to do. Takes no lock and reads no batch, so that a round over
        thousands of partitions costs little."""
        config = self._access.config_of(partition)
        if not self._access.is_begun(partition):
            return False
        is_left_alone = config.is_compacted and not self._is_cleaner_enabled
        now_ms, pinned_offset = self._clock.now_ms(), self._pinned_offset(partition)

        def look(store: ReadablePartition) -> bool:
            if is_left_alone:
                return bool(store.plan_key_filters(1))
            bounds, segments = store.bounds(), store.segments()
            if config.is_compacted and len(segments) > 1:
                return True
            if not retains:
                return bool(store.plan_key_filters(1))
            retained = plan_retention(
                [
                    Segment(
                        base_offset=each.base_offset,
                        next_offset=each.next_offset,
                        size_bytes=each.size_bytes,
                        # Without any timestamp the file's time is used, which the writer has.
                        max_timestamp_ms=max(each.max_timestamp_ms, 0),
                    )
                    for each in segments
                ],
                config=config,
                now_ms=now_ms,
                log_start_offset=bounds.log_start_offset,
                high_watermark=bounds.high_watermark,
                pinned_offset=pinned_offset,
            )
            return retained is not None or bool(store.plan_key_filters(1))

        return self._access.read(partition, look)

    def maintain(
        self, partition: TopicPartition, *, retains: bool = True, max_filter_bytes: int | None = None
    ) -> MaintenanceReport:
        """Retention runs first, so that no expired segment is compacted, and key filters last, for the remaining
        segments.

        `retains` False: without retention. `max_filter_bytes`: size of the segments that are read for key filters. An
        error is reported, not raised.
        """
        segment_count, offset_count, compaction, key_filter_count = 0, 0, CompactionReport(), 0
        error: str | None = None
        topic_id = self._access.topic_id_of(partition)
        try:
            if not self._access.is_begun(partition):
                return MaintenanceReport(partition=partition)
            if self._is_cleaner_enabled or not self._access.config_of(partition).is_compacted:
                if retains:
                    pinned_offset = self._pinned_offset(partition)
                    segment_count, offset_count = self._access.write(
                        partition, lambda store: self._retain(store, pinned_offset)
                    )
                for report in self._compact(partition):
                    compaction = compaction.plus(report)
            key_filter_count = self._key_filters.build(partition, max_filter_bytes)
        except (StreamlogError, OSError) as refused:
            # A topic that was deleted or recreated meanwhile needed no maintenance: its error does not concern the
            # topic that exists now.
            if topic_id is not None and self._access.topic_id_of(partition) == topic_id:
                error = f"{type(refused).__name__}: {refused}"
        return MaintenanceReport(
            partition=partition,
            deleted_segment_count=segment_count,
            deleted_offset_count=offset_count,
            compaction=compaction,
            key_filter_count=key_filter_count,
            error=error,
        )

    def _plan_compaction(self, store: WritablePartition) -> CompactionJob | None:
        stable_until = self._stable_until(store.topic_partition)
        return store.plan_compaction(self._clock.now_ms(), stable_until=stable_until)

    def _retain(self, store: WritablePartition, pinned_offset: int | None) -> tuple[int, int]:
        """(segments deleted, offsets deleted)."""
        start = store.bounds().log_start_offset
        segment_count = store.apply_retention(self._clock.now_ms(), pinned_offset=pinned_offset)
        return segment_count, store.bounds().log_start_offset - start

    def _compact(self, partition: TopicPartition) -> list[CompactionReport]:
        if not self._access.config_of(partition).is_compacted:
            return []
        mutex = self._access.lock_of(partition, COMPACTION_LOCK_FILE_NAME)
        with closing(mutex) as lock, lock.maybe_exclusive(timeout_seconds=0) as is_held:
            return self._passes(partition) if is_held else []  # otherwise another process compacts it

    def _passes(self, partition: TopicPartition) -> list[CompactionReport]:
        """One pass, and more while the dirty keys do not fit into memory."""
        reports = []
        source = self._access.open_apart(partition)
        try:
            is_full = True
            while is_full:
                job = self._access.write(partition, self._plan_compaction)
                if job is None:
                    break
                try:
                    cleaned = source.clean_compaction(
                        job,
                        memory_bytes=self._compaction_memory_bytes(),
                        digest_key=self._entropy.random_bytes(_DIGEST_KEY_BYTES),
                    )
                except StorageError as error:
                    if isinstance(error.__cause__, FileNotFoundError):
                        break  # segments were deleted meanwhile: the next maintenance does the rest
                    raise
                is_full = cleaned.is_full

                def swap(store: WritablePartition, cleaned: CleanedSegments = cleaned) -> CompactionReport:
                    # The topic may have been deleted and recreated while its old segments were read.
                    return store.swap_compaction(cleaned) if store.topic_id == source.topic_id else CompactionReport()

                reports.append(self._access.write(partition, swap))
        finally:
            source.close()
        return reports
