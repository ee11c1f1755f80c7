"""A writer's part of recovery: brings the files to the state that `recovery.load_partition` found. Needs the lock.

A repair can be repeated, also after a partial one. Afterwards `partition_writer` publishes the bounds.
"""

from __future__ import annotations

from broker_core.log.segment_table import Segment
from broker_core.model.exceptions import CorruptDataError
from broker_core.ports import FileSystem
from broker_core.storage.batch_walk import valid_prefix
from broker_core.storage.checkpoints import open_replacement, read_small_file, write_atomically
from broker_core.storage.recovery import LoadedPartition, RecoveredSegment
from broker_core.storage.segment_indexes import SegmentExtent, build_indexes
from broker_core.storage.segment_leftovers import delete_segments, remove_if_there
from broker_core.storage.segment_names import (
    KEY_FILTER,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    TIME_INDEX,
    TRANSACTION_INDEX,
    segment_path,
)
from broker_core.storage.storage_errors import NO_SPACE


def repair_partition(fs: FileSystem, loaded: LoadedPartition, *, index_interval_bytes: int) -> None:
    """Cuts torn tails, syncs what it keeps, removes files after the end, rewrites wrong indexes, writes missing
    snapshots.

    The active segment has no key filter.
    """
    for segment in loaded.recovered:
        _repair_log(fs, loaded, segment)
    delete_segments(fs, loaded.directory, loaded.stray)
    for segment in loaded.recovered:
        _repair_indexes(fs, loaded, segment)
        if segment.snapshot is not None and segment.base_offset not in loaded.listing.snapshots:
            # Without the snapshot the producers would be lost with the segments before this one.
            write_atomically(fs, segment_path(loaded.directory, segment.base_offset, SNAPSHOT), segment.snapshot)
    for base_offset in sorted(loaded.unfit_indexes):
        _rebuild_closed(fs, loaded.directory, loaded.closed[base_offset], index_interval_bytes)
    if loaded.active.base_offset in loaded.listing.key_filters:
        # It was cut, or the segments after it were removed: other records may get the offsets that the filter covers.
        remove_if_there(fs, segment_path(loaded.directory, loaded.active.base_offset, KEY_FILTER))
        fs.sync_directory(loaded.directory)
    for offset in loaded.listing.snapshots:
        # The snapshot includes batches that are gone; the log may grow past this offset with other batches.
        if offset > loaded.log.log_end_offset:
            remove_if_there(fs, segment_path(loaded.directory, offset, SNAPSHOT))


def _repair_log(fs: FileSystem, loaded: LoadedPartition, segment: RecoveredSegment) -> None:
    is_missing = segment.base_offset not in loaded.listing.logs
    if not (is_missing or segment.is_new or segment.size_bytes > segment.end_position):
        return
    path = segment_path(loaded.directory, segment.base_offset, LOG)
    file = fs.open(path, writable=True, create=True)
    try:
        if segment.size_bytes > segment.end_position:
            file.truncate(segment.end_position)
        file.sync()
    finally:
        file.close()
    fs.sync_directory(loaded.directory)


def _repair_indexes(fs: FileSystem, loaded: LoadedPartition, segment: RecoveredSegment) -> None:
    directory = loaded.directory
    wanted = {
        OFFSET_INDEX: bytes(segment.builder.offset_entries),
        TIME_INDEX: bytes(segment.builder.time_entries),
        TRANSACTION_INDEX: bytes(segment.transaction_entries),
    }
    if all(_holds(fs, loaded, segment.base_offset, kind, content) for kind, content in wanted.items()):
        return
    # Either an index is wrong, or the header that it was built from. Only valid batches may get new indexes.
    file = fs.open(segment_path(directory, segment.base_offset, LOG), writable=False)
    try:
        prefix = valid_prefix(file, position=0, until_position=segment.end_position, min_offset=segment.base_offset)
    finally:
        file.close()
    if prefix.problem is not None:
        raise prefix.problem
    write_index_files(
        fs,
        directory,
        segment.base_offset,
        offset_entries=segment.builder.offset_entries,
        time_entries=segment.builder.time_entries,
        transaction_entries=segment.transaction_entries,
    )


def _holds(fs: FileSystem, loaded: LoadedPartition, base_offset: int, kind: str, content: bytes) -> bool:
    """Whether the index file has this content; a missing one is empty."""
    if not loaded.listing.has_index(base_offset, kind):
        return not content
    file = fs.open(segment_path(loaded.directory, base_offset, kind), writable=False)
    try:
        return file.size_bytes() == len(content) and (not content or file.read_at(0, len(content)) == content)
    finally:
        file.close()


def _rebuild_closed(fs: FileSystem, directory: str, segment: Segment, index_interval_bytes: int) -> None:
    base_offset = segment.base_offset
    file = fs.open(segment_path(directory, base_offset, LOG), writable=False)
    try:
        builder = build_indexes(
            file,
            base_offset=base_offset,
            extent=SegmentExtent(end_position=segment.size_bytes, next_offset=segment.next_offset),
            index_interval_bytes=index_interval_bytes,
        )
    except CorruptDataError:
        return
    finally:
        file.close()
    builder.close()
    write_index_files(
        fs, directory, base_offset, offset_entries=builder.offset_entries, time_entries=builder.time_entries
    )


def write_index_files(
    fs: FileSystem,
    directory: str,
    base_offset: int,
    *,
    offset_entries: bytes | bytearray,
    time_entries: bytes | bytearray,
    transaction_entries: bytes | bytearray | None = None,
) -> None:
    """Replaces the index files with different content, as far as a full disk lets it. `transaction_entries` None: leave
    that file unchanged."""
    wanted = [(OFFSET_INDEX, offset_entries), (TIME_INDEX, time_entries)]
    if transaction_entries is not None:
        wanted.append((TRANSACTION_INDEX, transaction_entries))
    for kind, content in wanted:
        path = segment_path(directory, base_offset, kind)
        found = read_small_file(fs, path)
        is_missing = found is None and (content or kind != TRANSACTION_INDEX)
        if is_missing or (found is not None and found != content):
            _write_index(fs, path, bytes(content), is_needed=kind == TRANSACTION_INDEX)


def _write_index(fs: FileSystem, path: str, content: bytes, *, is_needed: bool) -> None:
    """On a full disk an index that is not needed is emptied: look-ups then read more, and retention, which would free
    space, is not kept from its work."""
    try:
        write_atomically(fs, path, content)
    except OSError as error:
        if is_needed or error.errno not in NO_SPACE:
            raise
        if fs.exists(path):
            open_replacement(fs, path).close()
