"""Key filters as files: built from a closed segment, stored beside it, and queried for a key.

    <base>.keyfilter        see `log.key_filter`; a query reads one block of it
    <base>.keyfilter.tmp    being written; incomplete after a crash, the next builder overwrites or removes it

Built in two parts, so that only the short one needs the partition's lock:

    write_key_filter(fs, directory, segment)    no lock, one builder of a partition at a time; reads the segment, writes
                                                and syncs the .tmp
    place_key_filter(fs, directory, segment)    lock; the segment must be unchanged: rename, sync the directory

Without a valid file, a query reads the segment; nothing else is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from broker_core.log.key_filter import (
    KEY_FILTER_HEADER_BYTES,
    ClosedSegment,
    KeyFilterBuilder,
    KeyFilterHeader,
    block_denies,
    block_position,
    decode_key_filter_header,
)
from broker_core.model.limits import KEY_FILTER_SPARE_BYTES
from broker_core.ports import File, FileSystem
from broker_core.record.key_places import BLOCK_BYTES
from broker_core.storage.checkpoints import require_owner, write_synced
from broker_core.storage.segment_files import SegmentFiles
from broker_core.storage.segment_indexes import SegmentExtent
from broker_core.storage.segment_leftovers import remove_if_there
from broker_core.storage.segment_names import KEY_FILTER, segment_path

TEMPORARY_SUFFIX: Final = ".tmp"
_READ_BYTES: Final = 4 * 1024 * 1024
"""Size of one read of a segment while its keys are collected."""


class KeyFilterFile:
    """The open filter of one closed segment."""

    def __init__(self, file: File, header: KeyFilterHeader) -> None:
        self._file = file
        self._header = header

    @classmethod
    def open(cls, fs: FileSystem, directory: str, segment: ClosedSegment) -> KeyFilterFile | None:
        """None when there is no filter that was built for exactly this segment."""
        try:
            file = fs.open(segment_path(directory, segment.base_offset, KEY_FILTER), writable=False)
        except FileNotFoundError:
            return None
        header = decode_key_filter_header(file.read_at(0, KEY_FILTER_HEADER_BYTES))
        if header is None or header.segment != segment or file.size_bytes() != header.file_bytes:
            file.close()
            return None
        return cls(file, header)

    @property
    def header(self) -> KeyFilterHeader:
        return self._header

    def denies(self, key: bytes | None) -> bool:
        """Whether no record of the segment has this key; None asks for records without a key."""
        if key is None:
            return not self._header.null_key_count
        count = self._header.block_count
        return not count or block_denies(self._file.read_at(block_position(key, count), BLOCK_BYTES), key, count)

    def content(self) -> bytes:
        """The whole file."""
        return self._file.read_at(0, self._header.file_bytes)

    def close(self) -> None:
        self._file.close()


def has_key_filter(fs: FileSystem, directory: str, segment: ClosedSegment) -> bool:
    """Whether a filter was built for this segment. Its blocks are not read."""
    found = KeyFilterFile.open(fs, directory, segment)
    if found is not None:
        found.close()
    return found is not None


def keys_of(
    segment: SegmentFiles, extent: SegmentExtent, columns: frozenset[str] = frozenset({"key"})
) -> Iterator[Any]:
    """Arrow record batches with the keys of all data records, aborted ones too, a few megabytes of segment at a time.

    Raises CorruptBatchError and UnsupportedFormatError, with file and position.
    """
    # Imported here, where a filter is built: a broker that decodes nothing does not need pyarrow.
    from broker_core.record.columns import decode

    for run in segment.runs(extent, max_bytes=_READ_BYTES):
        start = run.next_position - run.buffer.nbytes
        position, offset = 0, run.table.header(0).base_offset
        while position < run.buffer.nbytes:
            decoded = decode(
                run.buffer[position:],
                from_offset=offset,
                columns=columns,
                file=segment.path,
                file_position=start + position,
            )
            yield decoded.record_batch
            position, offset = position + decoded.bytes_consumed, decoded.next_offset


def write_key_filter(
    fs: FileSystem,
    directory: str,
    segment: ClosedSegment,
    *,
    index_interval_bytes: int,
    owner: UUID | None,
) -> bool:
    """The long part. False when the segment is gone or the disk is nearly full. Raises CorruptBatchError for a damaged
    segment. `owner`: see `open_replacement`."""
    if owner is not None:
        require_owner(fs, directory, owner)
    remove_unfinished_filters(fs, directory)
    if fs.free_bytes(directory) < KEY_FILTER_SPARE_BYTES:
        return False
    try:
        files = SegmentFiles(fs, directory, segment.base_offset, index_interval_bytes=index_interval_bytes)
    except FileNotFoundError:
        return False
    try:
        builder = KeyFilterBuilder(segment)
        extent = SegmentExtent(end_position=segment.size_bytes, next_offset=segment.next_offset)
        for keys in keys_of(files, extent):
            builder.add(keys.column("key"))
    finally:
        files.close()
    content = builder.finish()
    if fs.free_bytes(directory) < KEY_FILTER_SPARE_BYTES + len(content):
        return False
    write_synced(fs, _temporary_path(directory, segment), content, owner=owner)
    return True


def place_key_filter(fs: FileSystem, directory: str, segment: ClosedSegment) -> None:
    """The short part: puts the written filter in place."""
    fs.rename(_temporary_path(directory, segment), segment_path(directory, segment.base_offset, KEY_FILTER))
    fs.sync_directory(directory)


def remove_unfinished_filters(fs: FileSystem, directory: str) -> None:
    """Removes leftovers of builders that died, and filters that must not be placed. Only the builder may call it."""
    for name in fs.list_directory(directory):
        if name.endswith(f".{KEY_FILTER}{TEMPORARY_SUFFIX}"):
            remove_if_there(fs, f"{directory}/{name}")


def _temporary_path(directory: str, segment: ClosedSegment) -> str:
    return segment_path(directory, segment.base_offset, KEY_FILTER, TEMPORARY_SUFFIX)
