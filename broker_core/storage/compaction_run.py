"""Runs a compaction on files, in three parts, so that only the first and the last need the lock.

    job = plan_partition_compaction(writer, ...)      lock; short
    cleaned = clean_segments(fs, directory, job, ...) no lock; reads closed segments, writes *.cleaned, syncs them
    report = swap_segments(writer, job, cleaned)      lock; short: *.cleaned -> *.swap -> in place, generation + 1

The caller makes sure that only one compaction of a partition runs at a time. After a crash: the next plan removes
*.cleaned, which is incomplete; from *.log.swap on the result is whole, and the next writer finishes it
(`segment_leftovers`). If the segments changed between plan and swap (retention, truncation), the result is discarded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from broker_core.log.compaction import Compaction
from broker_core.log.compaction_plan import CompactionPlan, group_segments, plan_compaction
from broker_core.log.producer_entry import ProducerEntry
from broker_core.log.segment_table import Segment
from broker_core.log.transaction_index import AbortedTransactionEntry, TransactionIndex, encode_transaction_entry
from broker_core.model.exceptions import DirectoryFormatError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.topic_config import TopicConfig
from broker_core.ports import FileSystem
from broker_core.record.batch_reader import iter_headers
from broker_core.storage.checkpoints import (
    open_replacement,
    read_offset_checkpoint,
    write_offset_checkpoint,
    write_synced,
)
from broker_core.storage.partition_writer import PartitionWriter
from broker_core.storage.producer_replay import SegmentPart, producers_before, replay_segment
from broker_core.storage.segment_files import SegmentFiles
from broker_core.storage.segment_indexes import IndexBuilder, SegmentExtent
from broker_core.storage.segment_leftovers import put_swap_in_place, remove_cleaned, remove_if_there
from broker_core.storage.segment_names import (
    CLEANED,
    LOG,
    OFFSET_INDEX,
    SEGMENT_KINDS,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    FolderListing,
    segment_path,
)
from broker_core.storage.storage_errors import translated

CLEANER_CHECKPOINT_NAME = "cleaner-offset-checkpoint"
_READ_BYTES = 4 * 1024 * 1024
"""Size of one read of a source segment, and about its share of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """The result of one compaction; zeros when there was nothing to do or the segments changed meanwhile."""

    segments_cleaned: int = 0
    segments_written: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_removed: int = 0

    def plus(self, other: CompactionReport) -> CompactionReport:
        """The sum of both passes."""
        return CompactionReport(
            segments_cleaned=self.segments_cleaned + other.segments_cleaned,
            segments_written=self.segments_written + other.segments_written,
            bytes_before=self.bytes_before + other.bytes_before,
            bytes_after=self.bytes_after + other.bytes_after,
            records_removed=self.records_removed + other.records_removed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionJob:
    """The segments to clean, as of the time under the lock."""

    plan: CompactionPlan
    topic_partition: TopicPartition
    config: TopicConfig
    now_ms: int
    segments: tuple[Segment, ...]
    producers: Mapping[int, ProducerEntry]
    snapshots: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedSegments:
    """The output of `clean_segments`: the source segments of each group. `is_full`: another pass should follow."""

    groups: tuple[tuple[Segment, ...], ...]
    end_offset: int
    is_full: bool
    report: CompactionReport


def plan_partition_compaction(
    writer: PartitionWriter, now_ms: int, *, stable_until: int | None = None
) -> CompactionJob | None:
    """None: cleanup.policy has no `compact`, or nothing is dirty. `job.plan.is_due`: whether it should run now.

    `stable_until`: the last stable offset of what all in-sync replicas have; None: the log's own."""
    log = writer.log
    stable = log.last_stable_offset if stable_until is None else min(stable_until, log.last_stable_offset)
    with translated("planning compaction", writer.directory):
        listing = FolderListing.of(writer.fs.list_directory(writer.directory))
        remove_cleaned(writer.fs, writer.directory, listing)
        plan = plan_compaction(
            tuple(log.segments),
            config=writer.config,
            checkpoint_offset=_checkpoint(writer),
            log_start_offset=log.log_start_offset,
            last_stable_offset=stable,
            log_end_offset=log.log_end_offset,
            now_ms=now_ms,
        )
    if plan is None:
        return None
    return CompactionJob(
        plan=plan,
        topic_partition=writer.topic_partition,
        config=writer.config,
        now_ms=now_ms,
        segments=tuple(log.segments),
        producers=dict(log.producers.entries),
        snapshots=listing.snapshots,
    )


def clean_segments(
    fs: FileSystem,
    directory: str,
    job: CompactionJob,
    *,
    memory_bytes: int,
    digest_key: bytes,
    owner: UUID | None,
) -> CleanedSegments:
    """Writes the compacted segments beside the old ones. Raises CorruptBatchError, DiskFullError; the log is unchanged.

    `digest_key`: 16 random bytes, so that clients cannot choose colliding keys. `owner`: see `open_replacement`.
    """
    with translated("compacting", directory):
        compaction = Compaction(
            job.plan,
            config=job.config,
            now_ms=job.now_ms,
            memory_bytes=memory_bytes,
            digest_key=digest_key,
            aborted=_aborted_transactions(fs, directory, job),
            producers=job.producers,
        )
        _index(fs, directory, job, compaction)
        sources = [segment for segment in job.segments[:-1] if segment.base_offset < compaction.end_offset]
        groups = group_segments(sources, config=job.config)
        for group in groups:
            _clean_group(fs, directory, job, compaction, group, owner)
        fs.sync_directory(directory)
    counts = compaction.counts
    return CleanedSegments(
        groups=groups,
        end_offset=compaction.end_offset,
        is_full=compaction.is_full,
        report=CompactionReport(
            segments_cleaned=len(sources),
            segments_written=len(groups),
            bytes_before=counts.bytes_read,
            bytes_after=counts.bytes_written,
            records_removed=counts.records_read - counts.records_written,
        ),
    )


def swap_segments(writer: PartitionWriter, cleaned: CleanedSegments) -> CompactionReport:
    """Replaces the source segments by the cleaned ones, and writes the cleaner checkpoint."""
    fs, directory = writer.fs, writer.directory
    with translated("swapping compacted segments in", directory), writer.changing():
        present = {segment.base_offset: segment.size_bytes for segment in writer.log.segments}
        sources = [segment for group in cleaned.groups for segment in group]
        if any(present.get(source.base_offset) != source.size_bytes for source in sources) or not all(
            fs.exists(segment_path(directory, group[0].base_offset, LOG, CLEANED)) for group in cleaned.groups
        ):
            _throw_away(fs, directory, cleaned)
            return CompactionReport()
        writer.publish_gaps(cleaned.end_offset)
        for group in cleaned.groups:
            for kind in SEGMENT_KINDS:
                path = segment_path(directory, group[0].base_offset, kind)
                fs.rename(path + CLEANED, path + SWAP)
        fs.sync_directory(directory)
        for group in cleaned.groups:
            put_swap_in_place(fs, directory, group[0].base_offset, [source.base_offset for source in group])
        writer.publish(is_synced=writer.is_synced, is_new_generation=True)
        write_offset_checkpoint(
            fs, f"{directory}/{CLEANER_CHECKPOINT_NAME}", {writer.topic_partition: cleaned.end_offset}
        )
        writer.reload_segments()
    return cleaned.report


def _checkpoint(writer: PartitionWriter) -> int | None:
    try:
        offsets = read_offset_checkpoint(writer.fs, f"{writer.directory}/{CLEANER_CHECKPOINT_NAME}")
    except DirectoryFormatError:
        # Without it everything is dirty: more work, the same result.
        return None
    return offsets.get(writer.topic_partition)


def _throw_away(fs: FileSystem, directory: str, cleaned: CleanedSegments) -> None:
    for group in cleaned.groups:
        for kind in SEGMENT_KINDS:
            remove_if_there(fs, segment_path(directory, group[0].base_offset, kind, CLEANED))


def _aborted_transactions(fs: FileSystem, directory: str, job: CompactionJob) -> tuple[AbortedTransactionEntry, ...]:
    """Found in the batches themselves: with a lost index entry an aborted record could replace a committed one."""
    first = job.segments[0]
    producers = producers_before(
        fs, directory, str(job.topic_partition), first.base_offset, snapshots=job.snapshots, parts=()
    )
    entries = bytearray()
    for segment in job.segments:
        file = fs.open(segment_path(directory, segment.base_offset, LOG), writable=False)
        try:
            part = SegmentPart(base_offset=segment.base_offset, end_position=segment.size_bytes)
            entries += replay_segment(file, part, producers)
        finally:
            file.close()
    return tuple(TransactionIndex(entries))


def _index(fs: FileSystem, directory: str, job: CompactionJob, compaction: Compaction) -> None:
    for slot, segment in enumerate(job.segments[:-1]):
        following = job.segments[slot + 1]
        if following.base_offset <= job.plan.first_dirty_offset or segment.base_offset >= job.plan.until_offset:
            continue
        for buffer in _buffers(fs, directory, segment, job.config):
            if compaction.index(buffer):
                compaction.end_index()
                return
    compaction.end_index()


def _clean_group(
    fs: FileSystem,
    directory: str,
    job: CompactionJob,
    compaction: Compaction,
    group: Sequence[Segment],
    owner: UUID | None,
) -> None:
    base_offset = group[0].base_offset
    path = segment_path(directory, base_offset, LOG, CLEANED)
    builder = IndexBuilder(path, base_offset=base_offset, index_interval_bytes=job.config.index_interval_bytes)
    file = open_replacement(fs, path, owner=owner)
    try:
        size_bytes = 0
        for segment in group:
            for buffer in _buffers(fs, directory, segment, job.config):
                survivors = compaction.clean(buffer)
                file.write_at(size_bytes, survivors)
                size_bytes += len(survivors)
                for _, header in iter_headers(survivors):
                    builder.add(header)
        file.sync()
    finally:
        file.close()
    builder.close()
    transactions = b"".join(encode_transaction_entry(entry) for entry in compaction.take_aborted_transactions())
    # The last one is written even when empty: it must replace the old one.
    for kind, content in (
        (OFFSET_INDEX, bytes(builder.offset_entries)),
        (TIME_INDEX, bytes(builder.time_entries)),
        (TRANSACTION_INDEX, transactions),
    ):
        write_synced(fs, segment_path(directory, base_offset, kind, CLEANED), content, owner=owner)


def _buffers(fs: FileSystem, directory: str, segment: Segment, config: TopicConfig) -> Iterator[memoryview]:
    """The segment's batches, CRC-checked, a few megabytes at a time."""
    files = SegmentFiles(fs, directory, segment.base_offset, index_interval_bytes=config.index_interval_bytes)
    try:
        extent = SegmentExtent(end_position=segment.size_bytes, next_offset=segment.next_offset)
        for run in files.runs(extent, max_bytes=_READ_BYTES):
            yield run.buffer
    finally:
        files.close()
