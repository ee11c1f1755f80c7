"""The offset and time index of one segment for readers. An entry is verified against its batch before use.

Look-up contract: `floor_position(offset)` is the start of a batch at or before the one that holds `offset`, and
`floor_of_position(position)` that of one at or before a byte; the caller walks on from there. An entry is valid when
the batch at its position has the entry's last offset (older Kafkas index several batches by one entry: then its base
offset must be at or below, and its CRC valid). If an index is missing, torn, padded, foreign or otherwise wrong, the
segment is read once and the index kept in memory; writers repair the files.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_core.log.segment_index_feed import SegmentIndexFeed
from broker_core.log.sparse_index import (
    OFFSET_INDEX_ENTRY_BYTES,
    TIME_INDEX_ENTRY_BYTES,
    OffsetIndex,
    TimeIndex,
    TimestampOffset,
    encode_offset_entry,
    encode_time_entry,
)
from broker_core.model.exceptions import CorruptDataError
from broker_core.model.identifiers import NO_TIMESTAMP
from broker_core.model.limits import INDEX_ENTRY_OFFSET_DELTA_MAX, MAX_OFFSET
from broker_core.ports import File, FileSystem
from broker_core.record.batch_header import HEADER_BYTES, BatchHeader, read_header
from broker_core.record.faults import corrupt_batch
from broker_core.storage.batch_walk import check_placement, read_batch, walk_headers
from broker_core.storage.segment_names import OFFSET_INDEX, TIME_INDEX, segment_path

MAX_INDEX_FILE_BYTES = 1 << 28
"""More than an index of a segment of 2 GiB can have, at any interval; a larger file is no index."""

_UNINDEXED_BYTES = 4 * 1024 * 1024
"""After its last entry an index omits an interval and a batch or two. If it omits more than this, it is short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentExtent:
    """The part of a segment that is read: bytes [0, end_position), offsets below next_offset.

    From `dense_from` on no offset may be missing, see `partition_bounds`.
    """

    end_position: int
    next_offset: int
    dense_from: int = MAX_OFFSET


def timestamp_of(header: BatchHeader) -> int:
    """The largest timestamp of the batch's records: -1 for a batch that compaction emptied, although its header has
    one."""
    return header.max_timestamp if header.record_count else NO_TIMESTAMP


class IndexBuilder:
    """Builds the bytes of both index files from the batches of a segment, fed in order. `path` of its .log is for
    messages."""

    def __init__(self, path: str, *, base_offset: int, index_interval_bytes: int) -> None:
        self._path = path
        self.feed = SegmentIndexFeed(base_offset=base_offset, index_interval_bytes=index_interval_bytes)
        self.offset_entries = bytearray()
        self.time_entries = bytearray()

    def add(self, header: BatchHeader) -> None:
        if header.last_offset - self.feed.base_offset > INDEX_ENTRY_OFFSET_DELTA_MAX:
            raise corrupt_batch(
                f"last offset {header.last_offset} is too far from {self.feed.base_offset}, where the segment begins",
                position=self.feed.size_bytes,
                offset=header.base_offset,
                file=self._path,
            )
        entries = self.feed.add(header._replace(max_timestamp=timestamp_of(header)))
        if entries.offset_entry is not None:
            self.offset_entries += encode_offset_entry(entries.offset_entry, base_offset=self.feed.base_offset)
        self._add_time_entry(entries.time_entry)

    def close(self) -> None:
        """For a segment that is not active: its time index ends with its largest timestamp."""
        self._add_time_entry(self.feed.close())

    def _add_time_entry(self, entry: TimestampOffset | None) -> None:
        if entry is not None:
            self.time_entries += encode_time_entry(entry, base_offset=self.feed.base_offset)


def build_indexes(file: File, *, base_offset: int, extent: SegmentExtent, index_interval_bytes: int) -> IndexBuilder:
    """Reads the whole segment and checks CRCs, so that a damaged header does not get into an index. Raises
    CorruptBatchError."""
    builder = IndexBuilder(file.path, base_offset=base_offset, index_interval_bytes=index_interval_bytes)
    walk = walk_headers(
        file,
        position=0,
        until_position=extent.end_position,
        min_offset=base_offset,
        dense_from=extent.dense_from,
        end_offset=extent.next_offset,
    )
    for position, header in walk:
        read_batch(file, position, header)
        builder.add(header)
    return builder


class SegmentIndexes:
    """Both indexes of the segment in `log_file`, read from their files at the first look-up."""

    def __init__(self, fs: FileSystem, directory: str, base_offset: int, log_file: File, *, index_interval_bytes: int):
        self._fs = fs
        self._directory = directory
        self._base_offset = base_offset
        self._log_file = log_file
        self._index_interval_bytes = index_interval_bytes
        self._offset_entries: bytes | bytearray | None = None
        self._time_entries: bytes | bytearray | None = None
        self._is_built = False
        self._known_end_position = 0

    @property
    def is_rebuilt(self) -> bool:
        """The index files were invalid."""
        return self._is_built

    def floor_position(self, offset: int, extent: SegmentExtent) -> int:
        """Where to start walking for `offset`: the start of a batch at or before the one that holds it."""
        self._drop_if_outgrown(extent)
        index = self._offset_index()
        entry = index.floor(offset)
        if self._is_built:
            return entry.position
        if entry.position == 0 or (
            entry.offset <= offset and self._is_believable(entry.position, entry.offset, extent)
        ):
            is_last = index.slots_until(offset + 1) == index.entry_count
            if not (is_last and extent.end_position - entry.position > _UNINDEXED_BYTES):
                return entry.position
        self.rebuild(extent)
        return self._offset_index().floor(offset).position

    def floor_of_position(self, position: int, extent: SegmentExtent) -> int:
        """The start of a batch at or before byte `position`."""
        self._drop_if_outgrown(extent)
        index = self._offset_index()
        entry = index.floor_of_position(position)
        if self._is_built:
            return entry.position
        is_last = not index.entry_count or entry == index.entry(index.entry_count - 1)
        is_short = is_last and position - entry.position > _UNINDEXED_BYTES
        if not is_short and (entry.position == 0 or self._is_believable(entry.position, entry.offset, extent)):
            return entry.position
        self.rebuild(extent)
        return self._offset_index().floor_of_position(position).position

    def time_floor(self, timestamp_ms: int, extent: SegmentExtent) -> TimestampOffset:
        """The last entry at or below the timestamp. The caller checks it against its batch."""
        self._drop_if_outgrown(extent)
        index = self._time_index(extent)
        if (
            not self._is_built
            and TimeIndex.check(
                self._time_bytes()[: index.entry_count * TIME_INDEX_ENTRY_BYTES],
                base_offset=self._base_offset,
                next_offset=extent.next_offset,
            ).problem
        ):
            self.rebuild(extent)
            index = self._time_index(extent)
        return index.floor(timestamp_ms)

    def last_time_entry(self, extent: SegmentExtent) -> TimestampOffset:
        """The last entry inside the extent; -1 ms at the base offset when there is none. The caller checks it against
        its batch."""
        self._drop_if_outgrown(extent)
        return self._time_index(extent).last_entry()

    def rebuild(self, extent: SegmentExtent) -> None:
        """Rebuilds both from the batches, in memory."""
        builder = build_indexes(
            self._log_file,
            base_offset=self._base_offset,
            extent=extent,
            index_interval_bytes=self._index_interval_bytes,
        )
        builder.close()
        self._offset_entries, self._time_entries = builder.offset_entries, builder.time_entries
        self._is_built = True
        self._known_end_position = extent.end_position

    def _drop_if_outgrown(self, extent: SegmentExtent) -> None:
        """An active segment grows while it is open: its index is read again from time to time."""
        if extent.end_position > self._known_end_position + _UNINDEXED_BYTES // 16:
            self._offset_entries = self._time_entries = None
            self._is_built = False
            self._known_end_position = extent.end_position

    def _is_believable(self, position: int, last_offset: int, extent: SegmentExtent) -> bool:
        if not 0 < position < extent.end_position:
            return False
        try:
            header = read_header(self._log_file.read_at(position, HEADER_BYTES))
            check_placement(
                self._log_file.path,
                position,
                header,
                until_position=extent.end_position,
                min_offset=self._base_offset,
            )
            if header.last_offset == last_offset:
                return True
            if header.last_offset < last_offset:
                read_batch(self._log_file, position, header)
                return True
        except CorruptDataError:
            return False
        return False

    def _offset_index(self) -> OffsetIndex:
        if self._offset_entries is None:
            self._offset_entries = self._read(OFFSET_INDEX, OFFSET_INDEX_ENTRY_BYTES)
        return OffsetIndex(self._offset_entries, base_offset=self._base_offset)

    def _time_bytes(self) -> bytes | bytearray:
        if self._time_entries is None:
            self._time_entries = self._read(TIME_INDEX, TIME_INDEX_ENTRY_BYTES)
        return self._time_entries

    def _time_index(self, extent: SegmentExtent) -> TimeIndex:
        entries = self._time_bytes()
        whole = TimeIndex(entries, base_offset=self._base_offset)
        return TimeIndex(entries, base_offset=self._base_offset, entry_count=whole.slots_until(extent.next_offset))

    def _read(self, kind: str, entry_bytes: int) -> bytes:
        try:
            file = self._fs.open(segment_path(self._directory, self._base_offset, kind), writable=False)
        except FileNotFoundError:
            return b""
        try:
            data = file.read_at(0, min(file.size_bytes(), MAX_INDEX_FILE_BYTES))
        finally:
            file.close()
        # Kafka preallocates an index with zeros and trims it on a clean close. An entry may itself end in zeros.
        used_bytes = len(data.rstrip(b"\0"))
        return data[: min(len(data) // entry_bytes, -(-used_bytes // entry_bytes)) * entry_bytes]
