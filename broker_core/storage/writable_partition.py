"""The folder of one topic-partition, for its writer: see `readable_partition`.

A writable partition takes no lock; its caller does. Every method here needs the partition's exclusive lock, those of
its base classes need none. Call `refresh` first each time the lock was acquired; or `load`, only once, if no other
process writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, Self
from uuid import UUID

from broker_core.cluster import PartitionBounds
from broker_core.log.append_request import AppendRequest
from broker_core.log.key_filter import ClosedSegment
from broker_core.log.producer_entry import ProducerEntry
from broker_core.log.producer_state import AppendOrigin
from broker_core.model.exceptions import StorageError, StreamlogError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.placed_writes import PlacedAppend
from broker_core.ports import FileSystem
from broker_core.record.control_records import EndTransactionMarker
from broker_core.storage import maintenance
from broker_core.storage.append_group import (
    AppendOutcome,
    PendingAppends,
    append_group,
    begin_append,
    roll_segment,
)
from broker_core.storage.checkpoints import (
    LEADER_EPOCH_FILE_NAME,
    LOG_START_OFFSET_FILE_NAME,
    PARTITION_METADATA_FILE_NAME,
    put_in_place,
    write_partition_metadata,
)
from broker_core.storage.compaction_run import (
    CleanedSegments,
    CompactionJob,
    CompactionReport,
    plan_partition_compaction,
    swap_segments,
)
from broker_core.storage.key_filter_files import place_key_filter, remove_unfinished_filters
from broker_core.storage.marker_lookup import find_last_marker
from broker_core.storage.partition_bounds import BOUNDS_FILE_NAME
from broker_core.storage.partition_reader import partition_bounds
from broker_core.storage.partition_rebuilder import PartitionRebuilder
from broker_core.storage.partition_writer import PartitionWriter, RememberedProducers
from broker_core.storage.placed_append import append_placed
from broker_core.storage.readable_partition import find_topic_id
from broker_core.storage.replicated_append import append_replicated, begin_leader_epoch, restart_at
from broker_core.storage.segment_names import LOG, FolderListing, segment_path
from broker_core.storage.storage_errors import translated

_TELL_WHERE_THE_LOG_BEGINS: Final = frozenset({BOUNDS_FILE_NAME, LOG_START_OFFSET_FILE_NAME})


class WritablePartition(PartitionRebuilder):
    """Created by `open`. Call `refresh()` under the lock before any write."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        *,
        config: TopicConfig,
        topic_id: UUID | None,
        keeps_unpublished: bool = True,
    ) -> None:
        super().__init__(fs, directory, topic_partition, config=config, topic_id=topic_id)
        self._writer = PartitionWriter(fs, directory, topic_partition, config, keeps_unpublished=keeps_unpublished)

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        *,
        config: TopicConfig,
        topic_id: UUID | None,
        keeps_unpublished: bool = True,
    ) -> Self:
        """As `ReadablePartition.open`. `keeps_unpublished` False: `refresh` cuts everything that a dead writer left
        after the published end, instead of keeping whole batches. For a log that syncs its bounds (`flush`) before it
        acknowledges an append."""
        found_id = find_topic_id(fs, directory, topic_partition, topic_id)
        return cls(
            fs, directory, topic_partition, config=config, topic_id=found_id, keeps_unpublished=keeps_unpublished
        )

    @classmethod
    def create(
        cls,
        fs: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: UUID,
        *,
        is_folder_durable: bool = False,
        keeps_unpublished: bool = True,
    ) -> None:
        """Creates the folder with an empty first segment, bounds and, last, partition.metadata, which shows that all
        names before it are on the device. Durable when it returns. `is_folder_durable`: the folder's name is already
        on the device. `keeps_unpublished`: as in `open`.

        A second call on a half-created or whole folder finishes it and changes no data. The caller holds the lock that
        guards the creation of topics.
        """
        with translated("creating a partition", directory):
            if not is_folder_durable and not fs.exists(directory):
                fs.make_directory(directory)
            listing = FolderListing.of(fs.list_directory(directory))
            if LEADER_EPOCH_FILE_NAME not in listing.others:
                put_in_place(fs, f"{directory}/{LEADER_EPOCH_FILE_NAME}", b"0\n1\n0 0\n")
            if not listing.logs and not listing.others & _TELL_WHERE_THE_LOG_BEGINS:
                # If `refresh` found it missing, it would sync it on its own; here all names are synced together at the
                # end.
                fs.open(segment_path(directory, 0, LOG), writable=True, create=True).close()
            writer = PartitionWriter(fs, directory, topic_partition, TopicConfig(), keeps_unpublished=keeps_unpublished)
            try:
                writer.refresh()
            finally:
                writer.close()
            fs.sync_directory(directory)
            if not is_folder_durable:
                fs.sync_directory(directory.rpartition("/")[0])
            if PARTITION_METADATA_FILE_NAME not in listing.others:
                write_partition_metadata(fs, directory, topic_id)

    def refresh(self) -> None:
        """Reads the changes of other processes, and finishes the work of a dead one.

        Whole batches with a valid CRC after the published end are kept, synced and published, unless the partition was
        opened with `keeps_unpublished` False. The first invalid byte and all after it are cut. A bad batch below the
        published end is corruption: CorruptBatchError, nothing is cut.
        """
        self._writer.refresh()

    def load(self) -> None:
        """The same if no other process writes: reads only at the first call and after an error."""
        self._writer.loaded()

    def append(self, batches: bytearray, *, now_ms: int) -> AppendOutcome:
        """Validates, assigns offsets (in `batches`, in place), writes, syncs, publishes: all of it or nothing.

        Raises what `log.PartitionLog.plan_append` raises (RecordTooLargeError, InvalidRecordError, CorruptBatchError,
        OutOfOrderSequenceError, ProducerFencedError, ...) and DiskFullError. The partition stays usable after each of
        them.
        """
        return self._append(batches, now_ms, AppendOrigin.CLIENT)

    def append_placed(self, append: PlacedAppend, *, now_ms: int) -> None:
        """Appends batches at given offsets, with gaps: see `PlacedWrites`. The partition stays usable after an error,
        and may have a part of the append, up to a whole batch."""
        with self._writer.changing():
            append_placed(self._writer, append, now_ms)

    def append_replicated(self, batches: bytearray, *, now_ms: int) -> None:
        """Appends batches of the partition's leader as they are, synced; gaps between them are of compaction. The
        partition stays usable after an error, and has no part of the append."""
        append_replicated(self._writer.loaded(), batches, now_ms)

    def begin_leader_epoch(self, leader_epoch: int) -> None:
        """Notes that the leader of this epoch writes from the log's end on, also if no record of it follows."""
        begin_leader_epoch(self._writer.loaded(), leader_epoch)

    def restart_at(self, start_offset: int, *, now_ms: int) -> None:
        """Removes every record: the log starts and ends at the offset, which may be behind its end."""
        restart_at(self._writer.loaded(), start_offset, now_ms)

    def append_control(self, batches: bytearray, *, now_ms: int, is_synced: bool = True) -> AppendOutcome:
        """Appends batches of a coordinator: end-transaction markers, offset commits, its own log's records.

        `is_synced` False: visible to all processes, on the device with the next append that is synced.
        """
        return self._append(batches, now_ms, AppendOrigin.COORDINATOR, is_synced=is_synced)

    def append_group(
        self, requests: Sequence[AppendRequest], *, now_ms: int, is_synced: bool
    ) -> list[AppendOutcome | StreamlogError]:
        """Several appends with one sync and one publish, see `append_group`. Returns the outcome of each, in order: a
        refused one fails alone; when the disk fails, no part of any is kept and each has that StorageError."""
        try:
            return append_group(self._writer.loaded(), requests, now_ms=now_ms, is_synced=is_synced)
        except StorageError as error:
            return [error] * len(requests)

    def begin_append(self, requests: Sequence[AppendRequest], *, now_ms: int) -> PendingAppends:
        """The same up to the sync, for the appends before the first that begins a segment: only these have an outcome.

        The exclusive lock is held until the rest is done. Raises StorageError: then no part of any append is kept.
        """
        return begin_append(self._writer.loaded(), requests, now_ms=now_ms, is_synced=True, may_roll=False)

    @property
    def is_loaded(self) -> bool:
        """Whether a write can begin without reading the folder."""
        return self._writer.is_loaded

    def written_bounds(self) -> PartitionBounds:
        """The published bounds as of the last refresh or append: what `bounds` would read under the lock."""
        return partition_bounds(self._writer.published)

    def flush(self) -> None:
        """Syncs everything that is published, and its bounds."""
        self._writer.loaded().flush()

    def producer_entries(self) -> dict[int, ProducerEntry]:
        """The state of all producers of the partition, as of the last refresh or append; a copy."""
        return dict(self._writer.loaded().log.producers.entries)

    def producer_entry(self, producer_id: int) -> ProducerEntry | None:
        """The state of a producer, as of the last refresh or append."""
        return self._writer.loaded().log.producers.entries.get(producer_id)

    def last_marker(self, producer_id: int) -> EndTransactionMarker | None:
        """The producer's last marker, as of the last refresh or append. None: the log has none. May read the log."""
        log = self._writer.loaded().log
        known = log.producers.last_marker(producer_id)
        return known or find_last_marker(self._fs, self.directory, log.segments, producer_id)

    def open_transactions(self) -> dict[int, int]:
        """Producer id to first offset of its open transaction, as of the last refresh or append."""
        return dict(self._writer.loaded().log.producers.open_transactions())

    @property
    def remembered_producers(self) -> RememberedProducers | None:
        """For the next writer of this folder, when this one is closed. None after an error."""
        return self._writer.remembered_producers

    def remember_producers(self, remembered: RememberedProducers) -> None:
        """Uses them at the first refresh. If another writer appended meanwhile, only what fits."""
        self._writer.remember_producers(remembered)

    def delete_records(self, before_offset: int) -> int:
        """Moves the log start offset up (-1: to the end), drops segments wholly below it. Returns the log start offset.

        Raises OffsetOutOfRangeError above the high watermark.
        """
        return maintenance.delete_records(self._writer.loaded(), before_offset)

    def apply_retention(self, now_ms: int, *, pinned_offset: int | None = None) -> int:
        """Drops segments by retention.ms, retention.bytes and log start. Returns their number.

        Neither time nor size removes a record at or above `pinned_offset`.
        """
        return maintenance.apply_retention(self._writer.loaded(), now_ms, pinned_offset=pinned_offset)

    def roll(self, now_ms: int) -> bool:
        """Begins a new segment; False when the active one is empty."""
        return roll_segment(self._writer.loaded(), now_ms)

    def truncate_to(self, offset: int) -> None:
        """Removes every batch that reaches `offset` or begins after it."""
        maintenance.truncate_to(self._writer.loaded(), offset)

    def plan_compaction(self, now_ms: int, *, stable_until: int | None = None) -> CompactionJob | None:
        """None: nothing to do now, according to min.cleanable.dirty.ratio and the compaction lags. `stable_until`: see
        `plan_partition_compaction`."""
        job = plan_partition_compaction(self._writer.loaded(), now_ms, stable_until=stable_until)
        return job if job is not None and job.plan.is_due else None

    def swap_compaction(self, cleaned: CleanedSegments) -> CompactionReport:
        """Puts the result in place; a report of zeros when segments changed meanwhile and the result was discarded."""
        return swap_segments(self._writer.loaded(), cleaned)

    def compact(self, now_ms: int, memory_bytes: int, *, digest_key: bytes | None = None) -> CompactionReport:
        """All three parts, repeated while the key table fills up, under one lock. `digest_key`: 16 random bytes."""
        digest_key = digest_key or blake2b(f"{self.topic_id} {now_ms}".encode(), digest_size=16).digest()
        total = CompactionReport()
        job = self.plan_compaction(now_ms)
        while job is not None:
            cleaned = self.clean_compaction(job, memory_bytes=memory_bytes, digest_key=digest_key)
            total = total.plus(self.swap_compaction(cleaned))
            job = plan_partition_compaction(self._writer.loaded(), now_ms) if cleaned.is_full else None
        return total

    def place_key_filter(self, segment: ClosedSegment) -> bool:
        """Puts the written filter beside its segment. False if the segment is gone or changed; then the filter is
        discarded."""
        with translated("placing a key filter", self.directory):
            if segment in self._reader.closed_segments():
                place_key_filter(self._fs, self.directory, segment)
                return True
            remove_unfinished_filters(self._fs, self.directory)
            return False

    def close(self) -> None:
        """Closes all files. Appends are durable already."""
        super().close()
        self._writer.close()

    def _append(
        self, batches: bytearray, now_ms: int, origin: AppendOrigin, *, is_synced: bool = True
    ) -> AppendOutcome:
        requests = [AppendRequest(batches=batches, origin=origin, ignores_claimed_offset=True)]
        (outcome,) = append_group(self._writer.loaded(), requests, now_ms=now_ms, is_synced=is_synced)
        if isinstance(outcome, StreamlogError):
            raise outcome
        return outcome
