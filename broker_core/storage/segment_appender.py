"""The write side of the active segment: its four files, and the undo of an append.

An append writes the log, then the indexes. An undo cuts the indexes, then the log. So whenever an index has an entry
too many, the log is longer than was published, or a segment begins at its end: `refresh` checks for both after a writer
died in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from broker_core.log.append_plan import SegmentRun
from broker_core.log.sparse_index import TimestampOffset, encode_offset_entry, encode_time_entry
from broker_core.log.transaction_index import encode_transaction_entry
from broker_core.ports import File, FileSystem
from broker_core.storage.segment_names import LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, segment_path


class AppendMark(NamedTuple):
    """Sizes of the four files before an append."""

    log_bytes: int
    offset_index_bytes: int
    time_index_bytes: int
    transaction_index_bytes: int


class _Index:
    """An index file and its size. Call `learn_size` when another process may have changed it."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.learn_size()

    def learn_size(self) -> None:
        self.size_bytes = self.file.size_bytes()

    def append(self, entries: bytes) -> None:
        self.file.write_at(self.size_bytes, entries)
        self.size_bytes += len(entries)

    def cut_back(self, size_bytes: int) -> None:
        self.file.truncate(size_bytes)
        self.size_bytes = size_bytes


class SegmentAppender:
    """The segment at `base_offset`, open for appending. Creates missing files.

    `is_new`: it begins now. Any content of its files is left of a segment whose start was undone.
    """

    def __init__(self, fs: FileSystem, directory: str, base_offset: int, *, is_new: bool = False) -> None:
        self.base_offset = base_offset
        self._fs = fs
        self._directory = directory
        self._log = self._open(LOG)
        self._offset_index = _Index(self._open(OFFSET_INDEX))
        self._time_index = _Index(self._open(TIME_INDEX))
        self._transaction_index: _Index | None = None
        if fs.exists(segment_path(directory, base_offset, TRANSACTION_INDEX)):
            self._transaction_index = _Index(self._open(TRANSACTION_INDEX))
        if is_new:
            for index in self._indexes():
                if index.size_bytes:
                    index.cut_back(0)

    def learn_sizes(self) -> None:
        """Call this after another process wrote to the segment."""
        for index in self._indexes():
            index.learn_size()

    def mark(self, log_bytes: int) -> AppendMark:
        """`log_bytes`: the published size; bytes after it are not part of the log."""
        return AppendMark(
            log_bytes=log_bytes,
            offset_index_bytes=self._offset_index.size_bytes,
            time_index_bytes=self._time_index.size_bytes,
            transaction_index_bytes=self.transaction_index_bytes(),
        )

    def log_size_bytes(self) -> int:
        return self._log.size_bytes()

    def transaction_index_bytes(self) -> int:
        return self._transaction_index.size_bytes if self._transaction_index is not None else 0

    def write(self, run: SegmentRun, buffer: memoryview) -> None:
        """Writes a run's batches and index entries to the files. Syncs nothing."""
        self._log.write_at(run.file_position, buffer[run.from_position : run.until_position])
        if run.offset_entries:
            self._offset_index.append(
                b"".join([encode_offset_entry(entry, base_offset=self.base_offset) for entry in run.offset_entries])
            )
        if run.time_entries:
            self._time_index.append(
                b"".join([encode_time_entry(entry, base_offset=self.base_offset) for entry in run.time_entries])
            )
        if run.aborted_transactions:
            if self._transaction_index is None:
                self._transaction_index = _Index(self._open(TRANSACTION_INDEX))
            self._transaction_index.append(b"".join(map(encode_transaction_entry, run.aborted_transactions)))

    @property
    def descriptor(self) -> int | None:
        """The file descriptor of the .log, which `sync` syncs."""
        return self._log.descriptor

    def sync(self) -> None:
        """Syncs the batches. Indexes are not synced, because they can be rebuilt."""
        self._log.sync()

    def finish(self, closing_time_entry: TimestampOffset | None) -> None:
        """Ends the segment: writes its last time entry and syncs all its files."""
        if closing_time_entry is not None:
            self._time_index.append(encode_time_entry(closing_time_entry, base_offset=self.base_offset))
        for file in self._files():
            file.sync()

    def cut_back_indexes(self, mark: AppendMark) -> None:
        """Cuts the index files to their sizes at `mark`."""
        if self._transaction_index is not None:
            self._transaction_index.cut_back(mark.transaction_index_bytes)
        self._time_index.cut_back(mark.time_index_bytes)
        self._offset_index.cut_back(mark.offset_index_bytes)

    def clear_lookup_indexes(self) -> None:
        """Empties the offset index and the time index, which then serve only batches that come after."""
        self._offset_index.cut_back(0)
        self._time_index.cut_back(0)

    def cut_back_log(self, mark: AppendMark) -> None:
        self._log.truncate(mark.log_bytes)

    def close(self) -> None:
        for file in self._files():
            file.close()

    def _files(self) -> Iterator[File]:
        yield self._log
        for index in self._indexes():
            yield index.file

    def _indexes(self) -> Iterator[_Index]:
        yield self._offset_index
        yield self._time_index
        if self._transaction_index is not None:
            yield self._transaction_index

    def _open(self, kind: str) -> File:
        return self._fs.open(segment_path(self._directory, self.base_offset, kind), writable=True, create=True)
