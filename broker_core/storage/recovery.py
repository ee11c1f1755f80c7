"""Reads a partition's folder: returns the log machine, and what has to be repaired on disk.

    loaded = load_partition(...)          reads only; also for a directory that may not be written
    repair_partition(fs, loaded)            a writer's part: cut, remove, rewrite indexes; then publish the bounds

With published bounds, everything up to the flushed position is on the device: a bad header there is corruption and
raises (contents are checked when they are read). After it, batches are kept while they are whole, in order and have a
valid CRC, also in segments that a dead writer had begun. The first bad one, and everything after it, is cut. With
`keeps_unpublished` False everything after the published end is cut: see `WritablePartition.open`.

Without published bounds (a real Kafka's directory, a lost file) only the last segment can have a torn tail. It is read
whole. If good batches follow the first bad one, that is damage and raises; otherwise the bad bytes are a tail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker_core.log.leader_epochs import LeaderEpochs
from broker_core.log.partition_log import PartitionLog
from broker_core.log.producer_snapshot import encode_snapshot
from broker_core.log.producer_state import ProducerState
from broker_core.log.segment_table import Segment, SegmentTable
from broker_core.model.exceptions import CorruptDataError
from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import MAX_OFFSET
from broker_core.model.topic_config import TopicConfig
from broker_core.ports import File, FileSystem
from broker_core.record.batch_header import BatchHeader
from broker_core.record.faults import corrupt_batch
from broker_core.storage.batch_walk import valid_prefix
from broker_core.storage.checkpoints import (
    LEADER_EPOCH_FILE_NAME,
    LOG_START_OFFSET_FILE_NAME,
    read_offset_checkpoint,
    read_small_file,
)
from broker_core.storage.closed_segment import describe_closed_segment
from broker_core.storage.partition_bounds import PublishedBounds
from broker_core.storage.producer_replay import SegmentPart, producers_before, replay_segment
from broker_core.storage.segment_indexes import IndexBuilder
from broker_core.storage.segment_names import LOG, FolderListing, segment_path


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredSegment:
    """A segment after the walk: how much of it is good, and the right content of its indexes."""

    base_offset: int
    end_position: int
    size_bytes: int
    """Size of the file; more than `end_position` if a tail must be cut."""
    builder: IndexBuilder
    transaction_entries: bytearray
    is_new: bool
    """A part of it was not published: it must be synced."""
    snapshot: bytes | None = None
    """The producers at its start, for a segment of a dead writer, which may have died before it wrote the snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPartition:
    """`recovered`: the segments from the active one of the last published bounds to the one that is active now, the
    last. `stray`: base offsets of segments after the end."""

    directory: str
    log: PartitionLog
    listing: FolderListing
    recovered: tuple[RecoveredSegment, ...]
    stray: tuple[int, ...]
    unfit_indexes: frozenset[int]
    """Closed segments with invalid index files."""
    closed: Mapping[int, Segment]

    @property
    def active(self) -> RecoveredSegment:
        return self.recovered[-1]

    @property
    def has_unpublished(self) -> bool:
        return bool(self.stray) or any(s.is_new or s.size_bytes > s.end_position for s in self.recovered)


@dataclass(slots=True, kw_only=True)
class _Walk:
    """One load in progress."""

    fs: FileSystem
    directory: str
    config: TopicConfig
    producers: ProducerState
    epochs: LeaderEpochs
    dense_from: int
    next_offset: int
    keeps_unpublished: bool
    recovered: list[RecoveredSegment] = field(default_factory=list)


def load_partition(
    fs: FileSystem,
    directory: str,
    topic_partition: TopicPartition,
    *,
    config: TopicConfig,
    published: PublishedBounds | None,
    known_closed: Mapping[int, Segment],
    listing: FolderListing | None = None,
    keeps_unpublished: bool = True,
) -> LoadedPartition:
    """Raises CorruptBatchError for damage inside the flushed range; FileNotFoundError when the folder changes
    meanwhile.

    `known_closed`: descriptions from an earlier load; used if size and time of the file are the same. `listing`: the
    current listing of the folder, if the caller has one.
    """
    listing = listing or FolderListing.of(fs.list_directory(directory))
    name = str(topic_partition)
    log_start_offset = _log_start_offset(fs, directory, listing, topic_partition, published)
    active_base = _active_base(directory, listing, published, log_start_offset)
    closed_bases = [base for base in listing.logs if base < active_base]
    closed, unfit = _describe_closed(fs, directory, listing, [*closed_bases, active_base], config, known_closed)
    dense_from = published.dense_from_offset if published else MAX_OFFSET
    parts = [SegmentPart(base_offset=s.base_offset, end_position=s.size_bytes, dense_from=dense_from) for s in closed]
    walk = _Walk(
        fs=fs,
        directory=directory,
        config=config,
        producers=producers_before(fs, directory, name, active_base, snapshots=listing.snapshots, parts=parts),
        epochs=_leader_epochs(fs, directory, listing),
        dense_from=dense_from,
        next_offset=active_base,
        keeps_unpublished=keeps_unpublished or published is None,
    )
    following = [base for base in listing.logs if base > active_base]
    _recover_published_segment(walk, active_base, published, is_there=active_base in listing.logs)
    while following and walk.keeps_unpublished and _recover_next_segment(walk, following[0]):
        following.pop(0)
    log = _machine(walk, name, closed, max(log_start_offset, listing.logs[0] if listing.logs else log_start_offset))
    return LoadedPartition(
        directory=directory,
        log=log,
        listing=listing,
        recovered=tuple(walk.recovered),
        stray=tuple(following),
        unfit_indexes=unfit,
        closed={segment.base_offset: segment for segment in closed},
    )


def _log_start_offset(
    fs: FileSystem,
    directory: str,
    listing: FolderListing,
    topic_partition: TopicPartition,
    published: PublishedBounds | None,
) -> int:
    """The highest known log start: from published bounds or the folder's checkpoint, or, without both, from the
    checkpoint of the real Kafka's log directory that contains the folder."""
    in_folder: dict[TopicPartition, int] = {}
    if LOG_START_OFFSET_FILE_NAME in listing.others:
        in_folder = read_offset_checkpoint(fs, f"{directory}/{LOG_START_OFFSET_FILE_NAME}")
    if published is None and topic_partition not in in_folder:
        root = directory.rpartition("/")[0]
        in_folder = read_offset_checkpoint(fs, f"{root}/{LOG_START_OFFSET_FILE_NAME}")
    return max(in_folder.get(topic_partition, 0), published.log_start_offset if published else 0)


def _active_base(
    directory: str, listing: FolderListing, published: PublishedBounds | None, log_start_offset: int
) -> int:
    if published is None:
        return listing.logs[-1] if listing.logs else log_start_offset
    if published.active_base_offset not in listing.logs and published.active_size_bytes:
        raise corrupt_batch(
            "the segment is missing, but the published bounds include it",
            position=0,
            offset=published.active_base_offset,
            file=segment_path(directory, published.active_base_offset, LOG),
        )
    return published.active_base_offset


def _describe_closed(
    fs: FileSystem,
    directory: str,
    listing: FolderListing,
    bases: Sequence[int],
    config: TopicConfig,
    known: Mapping[int, Segment],
) -> tuple[list[Segment], frozenset[int]]:
    closed: list[Segment] = []
    unfit: set[int] = set()
    for slot, base in enumerate(bases[:-1]):
        segment, is_fit = describe_closed_segment(
            fs,
            directory,
            base,
            next_base_offset=bases[slot + 1],
            known=known.get(base),
            index_interval_bytes=config.index_interval_bytes,
        )
        closed.append(segment)
        if not is_fit or base not in listing.offset_indexes or base not in listing.time_indexes:
            unfit.add(base)
    return closed, frozenset(unfit)


def _leader_epochs(fs: FileSystem, directory: str, listing: FolderListing) -> LeaderEpochs:
    if LEADER_EPOCH_FILE_NAME not in listing.others:
        return LeaderEpochs()
    data = read_small_file(fs, f"{directory}/{LEADER_EPOCH_FILE_NAME}")
    try:
        return LeaderEpochs.decode((data or b"0\n0\n").decode())
    except (CorruptDataError, UnicodeDecodeError):
        return LeaderEpochs()


def _recover_published_segment(
    walk: _Walk, base_offset: int, published: PublishedBounds | None, *, is_there: bool
) -> None:
    path = segment_path(walk.directory, base_offset, LOG)
    if not is_there:
        builder = IndexBuilder(path, base_offset=base_offset, index_interval_bytes=walk.config.index_interval_bytes)
        walk.recovered.append(
            RecoveredSegment(
                base_offset=base_offset,
                end_position=0,
                size_bytes=0,
                builder=builder,
                transaction_entries=bytearray(),
                is_new=True,
            )
        )
        return
    file = walk.fs.open(path, writable=False)
    try:
        size_bytes = file.size_bytes()
        flushed_bytes = published.flushed_size_bytes if published else 0
        if size_bytes < flushed_bytes:
            raise corrupt_batch(
                f"the file ends at byte {size_bytes}, but {flushed_bytes} bytes were published",
                position=size_bytes,
                offset=base_offset,
                file=path,
            )
        tail = valid_prefix(
            file,
            position=flushed_bytes,
            until_position=_kept_bytes(walk, published, size_bytes),
            min_offset=published.log_end_offset if published and _is_flushed(published) else base_offset,
            dense_from=walk.dense_from if published and _is_flushed(published) else MAX_OFFSET,
        )
        if published is None and tail.problem is not None and tail.is_followed_by_batches:
            raise tail.problem
        is_new = published is not None and tail.end_position != published.active_size_bytes
        end_offset = published.log_end_offset if published and not is_new else None
        _take(walk, file, base_offset, tail.end_position, size_bytes, is_new=is_new, end_offset=end_offset)
    finally:
        file.close()


def _kept_bytes(walk: _Walk, published: PublishedBounds | None, size_bytes: int) -> int:
    """How far the active segment of the last published bounds is kept."""
    if published is None or walk.keeps_unpublished:
        return size_bytes
    return min(size_bytes, published.active_size_bytes)


def _is_flushed(published: PublishedBounds) -> bool:
    return published.flushed_size_bytes == published.active_size_bytes


def _recover_next_segment(walk: _Walk, base_offset: int) -> bool:
    """A segment that a writer had begun. False: it does not continue the kept log."""
    last = walk.recovered[-1]
    if last.size_bytes > last.end_position or base_offset != walk.next_offset:
        return False
    file = walk.fs.open(segment_path(walk.directory, base_offset, LOG), writable=False)
    try:
        size_bytes = file.size_bytes()
        prefix = valid_prefix(
            file, position=0, until_position=size_bytes, min_offset=base_offset, dense_from=walk.dense_from
        )
        last.builder.close()
        snapshot = encode_snapshot(walk.producers.entries.values())
        _take(walk, file, base_offset, prefix.end_position, size_bytes, is_new=True, snapshot=snapshot)
    finally:
        file.close()
    return True


def _take(
    walk: _Walk,
    file: File,
    base_offset: int,
    end_position: int,
    size_bytes: int,
    *,
    is_new: bool,
    end_offset: int | None = None,
    snapshot: bytes | None = None,
) -> None:
    builder = IndexBuilder(file.path, base_offset=base_offset, index_interval_bytes=walk.config.index_interval_bytes)

    def on_batch(header: BatchHeader) -> None:
        builder.add(header)
        if header.partition_leader_epoch > walk.epochs.latest_epoch:
            walk.epochs.assign(header.partition_leader_epoch, header.base_offset)

    entries = replay_segment(
        file,
        SegmentPart(
            base_offset=base_offset, end_position=end_position, dense_from=walk.dense_from, end_offset=end_offset
        ),
        walk.producers,
        min_offset=base_offset,
        on_batch=on_batch,
    )
    walk.next_offset = builder.feed.next_offset
    walk.recovered.append(
        RecoveredSegment(
            base_offset=base_offset,
            end_position=end_position,
            size_bytes=size_bytes,
            builder=builder,
            transaction_entries=entries,
            is_new=is_new,
            snapshot=snapshot,
        )
    )


def _machine(walk: _Walk, name: str, closed: Sequence[Segment], log_start_offset: int) -> PartitionLog:
    walk.producers.end_offset = walk.next_offset
    walk.epochs.truncate_from_end(max(walk.next_offset, 1))
    table = SegmentTable([*closed, *(_described(segment) for segment in walk.recovered)])
    return PartitionLog(
        name=name,
        config=walk.config,
        segments=table,
        feed=walk.recovered[-1].builder.feed,
        producers=walk.producers,
        leader_epochs=walk.epochs,
        log_start_offset=min(log_start_offset, walk.next_offset),
    )


def _described(segment: RecoveredSegment) -> Segment:
    feed = segment.builder.feed
    return Segment(
        base_offset=segment.base_offset,
        next_offset=feed.next_offset,
        size_bytes=segment.end_position,
        max_timestamp_ms=feed.largest.timestamp_ms,
        first_timestamp_ms=feed.first_timestamp_ms,
        index_size_bytes=max(len(segment.builder.offset_entries), len(segment.builder.time_entries)),
    )
