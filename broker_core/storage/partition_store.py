"""One topic-partition's folder: what readers and writers may ask of it.

    <topic>-<partition>/
        00000000000000000000.log .index .timeindex .txnindex .snapshot     Kafka's files, a set per segment
        leader-epoch-checkpoint, partition.metadata                         Kafka's files
        log-start-offset-checkpoint, cleaner-offset-checkpoint              Kafka's text format, kept in the folder
        00000000000000000000.keyfilter                                      which keys a closed segment may hold
        partition.bounds                                                    published bounds (see `partition_bounds`)

The store takes no lock. The door does: `refresh`, `append`, `append_control`, `append_group`, `begin_append`, `flush`,
`producer_entry`, `producer_entries`, `open_transactions`, `delete_records`, `apply_retention`, `roll`, `truncate_to`,
`plan_compaction`, `swap_compaction`, `compact` and `place_key_filter` want the partition's exclusive lock; everything
else wants none. `refresh` comes first every time the lock was taken; `load`, only once, where nobody else writes.

A store is not thread-safe: threads of one process share it under the door's mutex, or open one each.

Longer than 400 lines because all that may be asked of a folder stands in one place, each method one call deep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final
from uuid import UUID

from broker_core.cluster import (
    FetchedBatches,
    KeyRanges,
    OffsetAndTimestamp,
    PartitionBounds,
    SegmentDescription,
)
from broker_core.log.key_filter import ClosedSegment
from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.log.producer_state import AppendOrigin, ProducerEntry
from broker_core.model.exceptions import (
    DirectoryFormatError,
    DirectoryReadOnlyError,
    StorageError,
    StreamlogError,
    UnknownPartitionError,
)
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.ports import FileSystem
from broker_core.storage import maintenance
from broker_core.storage.append_group import (
    AppendOutcome,
    GroupedAppend,
    StartedAppends,
    append_group,
    begin_append,
    roll_segment,
)
from broker_core.storage.checkpoints import (
    LEADER_EPOCH_FILE_NAME,
    LOG_START_OFFSET_FILE_NAME,
    PARTITION_METADATA_FILE_NAME,
    put_in_place,
    read_partition_metadata,
    read_small_file,
    write_partition_metadata,
)
from broker_core.storage.compaction_run import (
    CleanedSegments,
    CompactionJob,
    CompactionReport,
    clean_segments,
    plan_partition_compaction,
    swap_segments,
)
from broker_core.storage.key_filter_files import (
    has_key_filter,
    place_key_filter,
    remove_unfinished_filters,
    write_key_filter,
)
from broker_core.storage.partition_bounds import BOUNDS_FILE_NAME, PublishedBounds
from broker_core.storage.partition_reader import PartitionReader, partition_bounds
from broker_core.storage.partition_writer import PartitionWriter
from broker_core.storage.segment_names import LOG, FolderListing, segment_path
from broker_core.storage.storage_errors import translated
from broker_core.storage.verification import (
    DumpedBatch,
    Finding,
    Progress,
    VerifiedSegment,
    dump_batches,
    verify_partition,
)

__all__ = [
    "AppendOutcome",
    "CleanedSegments",
    "CompactionJob",
    "CompactionReport",
    "DumpedBatch",
    "Finding",
    "GroupedAppend",
    "PartitionStore",
    "StartedAppends",
]

_TELL_WHERE_THE_LOG_BEGINS: Final = frozenset({BOUNDS_FILE_NAME, LOG_START_OFFSET_FILE_NAME})


class PartitionStore:
    """Made by `open`. Every method raises StorageError or one of its kinds when the disk refuses."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        *,
        config: TopicConfig,
        topic_id: UUID | None,
        writable: bool,
        keeps_unpublished: bool,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self._fs = fs
        self._config = config
        self._reader = PartitionReader(fs, directory, topic_partition, config)
        self._writer = (
            PartitionWriter(fs, directory, topic_partition, config, keeps_unpublished=keeps_unpublished)
            if writable
            else None
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
        """Makes the folder with an empty first segment, bounds and, last, partition.metadata: it says that all names
        before it are on the device. Durable when it returns. `is_folder_durable`: the folder's name is there already.
        `keeps_unpublished`: as in `open`.

        Calling it again on a half-made or whole folder finishes it and changes no data. The caller holds the lock that
        guards the creation of topics.
        """
        with translated("creating a partition", directory):
            if not is_folder_durable and not fs.exists(directory):
                fs.make_directory(directory)
            listing = FolderListing.of(fs.list_directory(directory))
            if LEADER_EPOCH_FILE_NAME not in listing.others:
                put_in_place(fs, f"{directory}/{LEADER_EPOCH_FILE_NAME}", b"0\n1\n0 0\n")
            if not listing.logs and not listing.others & _TELL_WHERE_THE_LOG_BEGINS:
                # Found missing, it would be synced on its own; here all names are, together and at the end.
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

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        *,
        config: TopicConfig,
        topic_id: UUID | None,
        writable: bool,
        keeps_unpublished: bool = True,
    ) -> PartitionStore:
        """Cheap; changes and recovers nothing. A writable store must `refresh()` under the lock before a write.

        `keeps_unpublished` False: `refresh` cuts what a dead writer left behind the published end, where it would keep
        whole batches. For a log whose bounds are on the device (`flush`) before an append is acknowledged.
        `topic_id` None: whatever partition.metadata says. Raises UnknownPartitionError without the folder,
        DirectoryFormatError when partition.metadata names another topic.
        """
        with translated("opening", directory):
            found_id = read_partition_metadata(fs, directory, expected_id=topic_id)
            if found_id is None and not fs.exists(directory):
                raise UnknownPartitionError(f"{topic_partition}: there is no folder {directory}")
        if topic_id is not None and found_id is not None and found_id != topic_id:
            raise DirectoryFormatError(
                f"{directory}/{PARTITION_METADATA_FILE_NAME} names topic id {found_id}, asked for was {topic_id}:"
                " the topic was deleted and made again"
            )
        return cls(
            fs,
            directory,
            topic_partition,
            config=config,
            topic_id=found_id or topic_id,
            writable=writable,
            keeps_unpublished=keeps_unpublished,
        )

    # -- readers: no lock --

    def bounds(self) -> PartitionBounds:
        """The published bounds, read again (one small read). high_watermark == log_end_offset."""
        return self._reader.bounds()

    def has_unpublished(self) -> bool:
        """Whether the folder holds more than was published: a writer is at work, or left it so; `refresh` ends it."""
        return self._reader.has_unpublished()

    def read(
        self,
        from_offset: int,
        *,
        max_bytes: int,
        until_offset: int | None = None,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> FetchedBatches:
        """Whole batches from the one that holds `from_offset`, CRC-checked, at least one even above `max_bytes`.

        Never a batch that begins at or above `until_offset` or the readable end of the isolation level. Ends with the
        segment: fewer bytes than asked for do not mean the end of the log, an empty buffer does.
        Raises OffsetOutOfRangeError, CorruptBatchError (file, position, offset), UnsupportedFormatError.
        """
        return self._reader.read(from_offset, max_bytes=max_bytes, until_offset=until_offset, isolation=isolation)

    def find_offset_by_timestamp(
        self, timestamp_ms: int, *, until_offset: int | None = None
    ) -> OffsetAndTimestamp | None:
        """The first record, in offset order, with a timestamp at or after `timestamp_ms`, below `until_offset`.

        As in Kafka, records of aborted transactions and control records count.
        """
        return self._reader.find_offset_by_timestamp(timestamp_ms, until_offset)

    def find_max_timestamp(self) -> OffsetAndTimestamp | None:
        """The first record that has the log's greatest timestamp; None in an empty log."""
        return self._reader.find_max_timestamp()

    def find_offset_within_bytes(self, from_offset: int, until_offset: int, max_bytes: int) -> int:
        """See `Cluster.find_offset_within_bytes`: exact, whatever the index leaves out."""
        return self._reader.find_offset_within_bytes(from_offset, until_offset, max_bytes)

    def bytes_between(self, from_offset: int, until_offset: int) -> int:
        """Bytes of all batches that hold an offset in [from_offset, until_offset)."""
        return self._reader.bytes_between(from_offset, until_offset)

    def ranges_with_key(self, key: bytes | None, from_offset: int, until_offset: int) -> KeyRanges:
        """The range without the closed segments whose key filter denies the key; None asks for records without one."""
        return self._reader.ranges_with_key(key, from_offset, until_offset)

    def leader_epochs(self) -> LeaderEpochs:
        """Which leader wrote from which offset on. Raises CorruptDataError for a damaged checkpoint."""
        with translated("reading", self.directory):
            data = read_small_file(self._fs, f"{self.directory}/{LEADER_EPOCH_FILE_NAME}")
        return LeaderEpochs() if data is None else LeaderEpochs.decode(data.decode("utf-8", "replace"))

    def segments(self) -> tuple[SegmentDescription, ...]:
        """All segments in offset order."""

        def describe(published: PublishedBounds) -> tuple[SegmentDescription, ...]:
            return tuple(
                SegmentDescription(
                    base_offset=base,
                    next_offset=extent.next_offset,
                    size_bytes=extent.end_position,
                    max_timestamp_ms=self._reader.largest_timestamp_ms(base, extent),
                    is_active=base == published.active_base_offset,
                    path=segment_path(self.directory, base, LOG),
                )
                for base, extent in self._reader.extents(published)
            )

        return self._reader.with_bounds(describe)

    def dump(self) -> Iterator[DumpedBatch]:
        """Every batch with its place and what is wrong with it. Raises CorruptBatchError where the walk cannot go
        on."""
        for segment in self._verified_segments():
            yield from dump_batches(self._fs, self.directory, segment)

    def verify(self, progress: Progress | None = None) -> list[Finding]:
        """Walks every batch and record and holds every index against them. `progress(bytes_done, bytes_total)`."""
        listing = FolderListing.of(self._fs.list_directory(self.directory))
        return verify_partition(
            self._fs,
            self.directory,
            str(self.topic_partition),
            self._verified_segments(),
            snapshots=listing.snapshots,
            progress=progress,
        )

    # -- writers: the caller holds the partition's exclusive lock --

    def refresh(self) -> None:
        """Learns what other processes did, finishes what a dead one left.

        Whole CRC-true batches behind the published end are kept, synced and published, unless the store was opened
        otherwise; the first invalid byte and all behind it is cut. A bad batch below the published end is corruption:
        CorruptBatchError, nothing cut.
        """
        self._writable().refresh()

    def load(self) -> None:
        """The same where nobody else writes: only once, and after an error."""
        self._writable().loaded()

    def append(self, batches: bytearray, *, now_ms: int) -> AppendOutcome:
        """Validates, places (in `batches`, in place), writes, syncs, publishes: all of it or nothing.

        Raises what `log.PartitionLog.plan_append` raises (RecordTooLargeError, InvalidRecordError, CorruptBatchError,
        OutOfOrderSequenceError, ProducerFencedError, ...) and DiskFullError. After any of them the store goes on.
        """
        return self._append(batches, now_ms, AppendOrigin.CLIENT)

    def append_control(self, batches: bytearray, *, now_ms: int, is_synced: bool = True) -> AppendOutcome:
        """Appends batches that a coordinator made: end-transaction markers, offset commits, its own log's records.

        `is_synced` False: visible to all processes, on the device with the next append that is synced.
        """
        return self._append(batches, now_ms, AppendOrigin.COORDINATOR, is_synced=is_synced)

    def append_group(
        self, appends: Sequence[GroupedAppend], *, now_ms: int, is_synced: bool
    ) -> list[AppendOutcome | StreamlogError]:
        """Several appends with one sync and one publish, see `append_group`. What became of each, in order: a refused
        one fails alone; when the disk refuses, nothing of any of them is kept and each has that StorageError."""
        try:
            return append_group(self._loaded(), appends, now_ms=now_ms, is_synced=is_synced)
        except StorageError as error:
            return [error] * len(appends)

    def begin_append(self, appends: Sequence[GroupedAppend], *, now_ms: int) -> StartedAppends:
        """The same up to the sync, of as many of them as get an outcome: those before the first that begins a segment.

        The exclusive lock is held until the rest was done. Raises StorageError: then nothing of any of them is kept.
        """
        return begin_append(self._loaded(), appends, now_ms=now_ms, is_synced=True, may_roll=False)

    @property
    def is_loaded(self) -> bool:
        """Whether a write can begin without reading the folder."""
        return self._writer is not None and self._writer.is_loaded

    def written_bounds(self) -> PartitionBounds:
        """The published bounds as of the last refresh or append: what `bounds` would read under the lock."""
        return partition_bounds(self._writable().published)

    def flush(self) -> None:
        """Puts what is published on the device, and the bounds that name it."""
        self._loaded().flush()

    def producer_entries(self) -> dict[int, ProducerEntry]:
        """All producers that the partition remembers, as of the last refresh or append; a copy."""
        return dict(self._loaded().log.producers.entries)

    def producer_entry(self, producer_id: int) -> ProducerEntry | None:
        """What the partition remembers of a producer, as of the last refresh or append."""
        return self._loaded().log.producers.entries.get(producer_id)

    def open_transactions(self) -> dict[int, int]:
        """Producer id to first offset of its open transaction, as of the last refresh or append."""
        return dict(self._loaded().log.producers.open_transactions())

    def delete_records(self, before_offset: int) -> int:
        """Moves the log start offset up (-1: to the end), drops segments wholly below it. Returns the log start offset.

        Raises OffsetOutOfRangeError above the high watermark.
        """
        return maintenance.delete_records(self._loaded(), before_offset)

    def apply_retention(self, now_ms: int, *, pinned_offset: int | None = None) -> int:
        """Drops segments by retention.ms, retention.bytes and log start. Returns how many.

        Neither time nor size takes a record at or above `pinned_offset`.
        """
        return maintenance.apply_retention(self._loaded(), now_ms, pinned_offset=pinned_offset)

    def roll(self, now_ms: int) -> bool:
        """Begins a new segment; False when the active one is empty."""
        return roll_segment(self._loaded(), now_ms)

    def truncate_to(self, offset: int) -> None:
        """Removes every batch that reaches `offset` or begins behind it."""
        maintenance.truncate_to(self._loaded(), offset)

    def plan_compaction(self, now_ms: int) -> CompactionJob | None:
        """None: nothing to do now, by min.cleanable.dirty.ratio and the compaction lags."""
        job = plan_partition_compaction(self._loaded(), now_ms)
        return job if job is not None and job.plan.is_due else None

    def clean_compaction(self, job: CompactionJob, *, memory_bytes: int, digest_key: bytes) -> CleanedSegments:
        """The long part, without the lock. One compaction of a partition at a time. `digest_key`: 16 random bytes."""
        return clean_segments(
            self._fs,
            self.directory,
            job,
            memory_bytes=memory_bytes,
            digest_key=digest_key,
            owner=self.topic_id,
        )

    def swap_compaction(self, cleaned: CleanedSegments) -> CompactionReport:
        """Puts the result in place; a report of zeros when segments have changed meanwhile and it was thrown away."""
        return swap_segments(self._loaded(), cleaned)

    def compact(self, now_ms: int, memory_bytes: int, *, digest_key: bytes | None = None) -> CompactionReport:
        """All three parts, as often as the key table fills up, under one lock. Who has dice gives 16 random bytes."""
        digest_key = digest_key or blake2b(f"{self.topic_id} {now_ms}".encode(), digest_size=16).digest()
        total = CompactionReport()
        job = self.plan_compaction(now_ms)
        while job is not None:
            cleaned = self.clean_compaction(job, memory_bytes=memory_bytes, digest_key=digest_key)
            total = total.plus(self.swap_compaction(cleaned))
            job = plan_partition_compaction(self._loaded(), now_ms) if cleaned.is_full else None
        return total

    def plan_key_filters(self, max_bytes: int | None = None) -> tuple[ClosedSegment, ...]:
        """Closed segments without a key filter, the newest first, of so many bytes together; one at least. No lock."""
        planned: list[ClosedSegment] = []
        left_bytes = max_bytes
        for segment in reversed(self._reader.closed_segments()):
            if has_key_filter(self._fs, self.directory, segment):
                continue
            if left_bytes is not None and planned and segment.size_bytes > left_bytes:
                break
            planned.append(segment)
            left_bytes = None if left_bytes is None else left_bytes - segment.size_bytes
        return tuple(planned)

    def write_key_filter(self, segment: ClosedSegment) -> bool:
        """The long part, without the lock: reads the segment, writes the filter aside. One builder of a partition at a
        time. False when the segment is gone or the disk nearly full. Raises CorruptBatchError where it is damaged."""
        interval_bytes = self._config.index_interval_bytes
        with translated("making a key filter", self.directory):
            return write_key_filter(
                self._fs, self.directory, segment, index_interval_bytes=interval_bytes, owner=self.topic_id
            )

    def place_key_filter(self, segment: ClosedSegment) -> bool:
        """Puts what was written beside its segment; False, and it is thrown away, when that is not there any more as it
        was."""
        self._writable()
        with translated("placing a key filter", self.directory):
            if segment in self._reader.closed_segments():
                place_key_filter(self._fs, self.directory, segment)
                return True
            remove_unfinished_filters(self._fs, self.directory)
            return False

    def close(self) -> None:
        """Closes all files. What was appended is durable already."""
        self._reader.close()
        if self._writer is not None:
            self._writer.close()

    def _append(
        self, batches: bytearray, now_ms: int, origin: AppendOrigin, *, is_synced: bool = True
    ) -> AppendOutcome:
        appends = [GroupedAppend(batches=batches, origin=origin)]
        (outcome,) = append_group(self._loaded(), appends, now_ms=now_ms, is_synced=is_synced)
        if isinstance(outcome, StreamlogError):
            raise outcome
        return outcome

    def _loaded(self) -> PartitionWriter:
        return self._writable().loaded()

    def _writable(self) -> PartitionWriter:
        if self._writer is None:
            raise DirectoryReadOnlyError(f"{self.topic_partition}: {self.directory} is open for reading only")
        return self._writer

    def _verified_segments(self) -> list[VerifiedSegment]:
        def look(published: PublishedBounds) -> list[VerifiedSegment]:
            return [
                VerifiedSegment(base_offset=base, extent=extent, is_active=base == published.active_base_offset)
                for base, extent in self._reader.extents(published)
            ]

        return self._reader.with_bounds(look)
