"""The folder of one topic-partition, for readers.

    <topic>-<partition>/
        00000000000000000000.log .index .timeindex .txnindex .snapshot     Kafka's files, a set per segment
        leader-epoch-checkpoint, partition.metadata                         Kafka's files
        log-start-offset-checkpoint, cleaner-offset-checkpoint              Kafka's text format, kept in the folder
        00000000000000000000.keyfilter                                      which keys a closed segment may hold
        partition.bounds                                                    published bounds (see `partition_bounds`)

    ReadablePartition       reads what is published; takes no lock, writes nothing
    PartitionRebuilder      also writes compacted segments and key filters aside; takes no lock
    WritablePartition       also changes the log; the caller holds the partition's exclusive lock

None of these classes is thread-safe: threads of one process share an object under the caller's mutex, or open one each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self
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
from broker_core.model.exceptions import DirectoryFormatError, UnknownPartitionError
from broker_core.model.identifiers import IsolationLevel, TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.ports import FileSystem
from broker_core.storage.checkpoints import (
    LEADER_EPOCH_FILE_NAME,
    PARTITION_METADATA_FILE_NAME,
    read_partition_metadata,
    read_small_file,
)
from broker_core.storage.key_filter_files import has_key_filter
from broker_core.storage.partition_bounds import PublishedBounds
from broker_core.storage.partition_reader import PartitionReader
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


def find_topic_id(
    fs: FileSystem, directory: str, topic_partition: TopicPartition, topic_id: UUID | None
) -> UUID | None:
    """The id of the folder's topic; see `ReadablePartition.open`."""
    with translated("opening", directory):
        found_id = read_partition_metadata(fs, directory, expected_id=topic_id)
        if found_id is None and not fs.exists(directory):
            raise UnknownPartitionError(f"{topic_partition}: folder {directory} does not exist")
    if topic_id is not None and found_id is not None and found_id != topic_id:
        raise DirectoryFormatError(
            f"{directory}/{PARTITION_METADATA_FILE_NAME} has topic id {found_id}, not {topic_id}:"
            " the topic was deleted and created again"
        )
    return found_id or topic_id


class ReadablePartition:
    """Created by `open`. Every method raises StorageError or a subclass when the disk fails."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        *,
        config: TopicConfig,
        topic_id: UUID | None,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self._fs = fs
        self._config = config
        self._reader = PartitionReader(fs, directory, topic_partition, config)

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        *,
        config: TopicConfig,
        topic_id: UUID | None,
    ) -> Self:
        """Cheap; changes and recovers nothing. `topic_id` None: the id in partition.metadata.

        Raises UnknownPartitionError without the folder, DirectoryFormatError when partition.metadata names another
        topic.
        """
        found_id = find_topic_id(fs, directory, topic_partition, topic_id)
        return cls(fs, directory, topic_partition, config=config, topic_id=found_id)

    def bounds(self) -> PartitionBounds:
        """The published bounds, read again (one small read). high_watermark == log_end_offset."""
        return self._reader.bounds()

    def has_unpublished(self) -> bool:
        """Whether the folder holds more than was published: a writer is appending, or died. A writer's `refresh`
        resolves it."""
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
        Raises OffsetOutOfRangeError; CorruptBatchError and UnsupportedFormatError, for the first batch that would be
        returned, with file, position, offset and next_offset: where the log continues, None if that is not certain.
        """
        return self._reader.read(from_offset, max_bytes=max_bytes, until_offset=until_offset, isolation=isolation)

    def find_offset_by_timestamp(
        self, timestamp_ms: int, *, until_offset: int | None = None
    ) -> OffsetAndTimestamp | None:
        """The first record, in offset order, with a timestamp at or after `timestamp_ms`, below `until_offset`.

        As in Kafka, records of aborted transactions and control records are included.
        """
        return self._reader.find_offset_by_timestamp(timestamp_ms, until_offset)

    def find_max_timestamp(self) -> OffsetAndTimestamp | None:
        """The first record that has the log's greatest timestamp; None in an empty log."""
        return self._reader.find_max_timestamp()

    def find_offset_within_bytes(self, from_offset: int, until_offset: int, max_bytes: int) -> int:
        """See `Cluster.find_offset_within_bytes`. The result is exact, although the index is sparse."""
        return self._reader.find_offset_within_bytes(from_offset, until_offset, max_bytes)

    def bytes_between(self, from_offset: int, until_offset: int) -> int:
        """Bytes of all batches that hold an offset in [from_offset, until_offset)."""
        return self._reader.bytes_between(from_offset, until_offset)

    def ranges_with_key(self, key: bytes | None, from_offset: int, until_offset: int) -> KeyRanges:
        """The range without the closed segments whose key filter excludes the key; None: records without a key."""
        return self._reader.ranges_with_key(key, from_offset, until_offset)

    def leader_epochs(self) -> LeaderEpochs:
        """The leader epochs and their start offsets. Raises CorruptDataError for a damaged checkpoint."""
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
        """Every batch with its position and its problem. Raises CorruptBatchError where the walk cannot continue."""
        for segment in self._verified_segments():
            yield from dump_batches(self._fs, self.directory, segment)

    def verify(self, progress: Progress | None = None) -> list[Finding]:
        """Walks every batch and record and checks every index against them. `progress(bytes_done, bytes_total)`."""
        listing = FolderListing.of(self._fs.list_directory(self.directory))
        return verify_partition(
            self._fs,
            self.directory,
            str(self.topic_partition),
            self._verified_segments(),
            snapshots=listing.snapshots,
            progress=progress,
        )

    def plan_key_filters(self, max_bytes: int | None = None) -> tuple[ClosedSegment, ...]:
        """Closed segments without a key filter, newest first, up to so many bytes together; at least one."""
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

    def close(self) -> None:
        """Closes all files."""
        self._reader.close()

    def _verified_segments(self) -> list[VerifiedSegment]:
        def look(published: PublishedBounds) -> list[VerifiedSegment]:
            return [
                VerifiedSegment(base_offset=base, extent=extent, is_active=base == published.active_base_offset)
                for base, extent in self._reader.extents(published)
            ]

        return self._reader.with_bounds(look)
