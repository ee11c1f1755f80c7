"""The write side of the active segment: its four files, and how to take an append back.

Order of an append: log, then indexes. Order of taking it back: indexes, then log. So whenever an index holds an entry
too many, the log is longer than was published, which is what `refresh` looks for after a writer died in between.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class SegmentAppender:
    """The segment at `base_offset`, open for appending; its files are made where they are missing."""

    def __init__(self, fs: FileSystem, directory: str, base_offset: int) -> None:
        self.base_offset = base_offset
        self._fs = fs
        self._directory = directory
        self._log = self._open(LOG)
        self._offset_index = self._open(OFFSET_INDEX)
        self._time_index = self._open(TIME_INDEX)
        self.learn_sizes()
        self._transaction_index: File | None = None
        if fs.exists(segment_path(directory, base_offset, TRANSACTION_INDEX)):
            self._transaction_index = self._open(TRANSACTION_INDEX)

    def learn_sizes(self) -> None:
        """Of the indexes: when the segment is opened, and whenever somebody else has written to it since."""
        self._offset_index_bytes = self._offset_index.size_bytes()
        self._time_index_bytes = self._time_index.size_bytes()

    def mark(self, log_bytes: int) -> AppendMark:
        """`log_bytes`: the published size; what lies behind it is not part of the log."""
        return AppendMark(
            log_bytes=log_bytes,
            offset_index_bytes=self._offset_index_bytes,
            time_index_bytes=self._time_index_bytes,
            transaction_index_bytes=self.transaction_index_bytes(),
        )

    def log_size_bytes(self) -> int:
        return self._log.size_bytes()

    def transaction_index_bytes(self) -> int:
        return self._transaction_index.size_bytes() if self._transaction_index is not None else 0

    def write(self, run: SegmentRun, buffer: memoryview) -> None:
        """Puts a run's batches and index entries into the files; nothing is synced."""
        self._log.write_at(run.file_position, buffer[run.from_position : run.until_position])
        if run.offset_entries:
            entries = b"".join([encode_offset_entry(e, base_offset=self.base_offset) for e in run.offset_entries])
            self._offset_index.write_at(self._offset_index_bytes, entries)
            self._offset_index_bytes += len(entries)
        self._append_time_entries(run.time_entries)
        if run.aborted_transactions:
            if self._transaction_index is None:
                self._transaction_index = self._open(TRANSACTION_INDEX)
            entries = b"".join(map(encode_transaction_entry, run.aborted_transactions))
            self._transaction_index.write_at(self._transaction_index.size_bytes(), entries)

    @property
    def descriptor(self) -> int | None:
        """Of the log, which is what `sync` syncs."""
        return self._log.descriptor

    def sync(self) -> None:
        """The batches are on the device. Indexes are not: they can be made anew."""
        self._log.sync()

    def finish(self, closing_time_entry: TimestampOffset | None) -> None:
        """The segment stops being active: its last time entry, and everything of it on the device."""
        if closing_time_entry is not None:
            self._append_time_entries((closing_time_entry,))
        for file in (self._log, self._offset_index, self._time_index, self._transaction_index):
            if file is not None:
                file.sync()

    def cut_back(self, mark: AppendMark) -> None:
        """Takes back what was written since `mark`."""
        if self._transaction_index is not None:
            self._transaction_index.truncate(mark.transaction_index_bytes)
        self._time_index.truncate(mark.time_index_bytes)
        self._time_index_bytes = mark.time_index_bytes
        self._offset_index.truncate(mark.offset_index_bytes)
        self._offset_index_bytes = mark.offset_index_bytes
        self._log.truncate(mark.log_bytes)

    def close(self) -> None:
        for file in (self._log, self._offset_index, self._time_index, self._transaction_index):
            if file is not None:
                file.close()

    def _append_time_entries(self, entries: Sequence[TimestampOffset]) -> None:
        if entries:
            data = b"".join([encode_time_entry(entry, base_offset=self.base_offset) for entry in entries])
            self._time_index.write_at(self._time_index_bytes, data)
            self._time_index_bytes += len(data)

    def _open(self, kind: str) -> File:
        return self._fs.open(segment_path(self._directory, self.base_offset, kind), writable=True, create=True)
