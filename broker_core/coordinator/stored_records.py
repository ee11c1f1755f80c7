"""Reads a coordinator's log: the records to replay from its batches, in one of two ways.

`events_of`       every record and every marker, in order: for the few batches appended since the last read
`NewestRecords`   for a whole log only the records that determine its state: the newest committed record of each key,
then
                  those of open transactions. Keys are compared natively; other records never become objects

Both give the same state, because a coordinator's state per key is that of its newest committed record: that is why its
log can be compacted. Of two committed records the later one in the log wins, however late the other's marker is
written."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from typing_extensions import Buffer

from broker_core.model.identifiers import NO_PRODUCER_ID
from broker_core.record.batch_header import COMPRESSION_MASK, CONTROL_BIT, HEADER_BYTES, TRANSACTIONAL_BIT
from broker_core.record.batch_reader import iter_headers, records_of, scan_batches
from broker_core.record.control_records import ControlType, EndTransactionMarker, read_end_transaction_marker
from broker_core.record.kernel_protocol import Cell

if TYPE_CHECKING:
    # Imported where a log is read: a broker without one does not need pyarrow.
    import pyarrow as pa

_COLUMNS: Final = frozenset({"key", "value", "offset"})
_MARKER_KEY: Final = b"\x08\x00\x00\x00"
"""Length 4 as a varint, version 0, and the upper half of the type."""


class StoredRecord(NamedTuple):
    """One record. `producer_id` -1: it is valid at once; otherwise only if that producer's transaction commits."""

    key: bytes
    value: bytes | None
    offset: int
    producer_id: int = NO_PRODUCER_ID


class EndedTransaction(NamedTuple):
    """A marker: the producer's records since its previous marker are committed or aborted."""

    producer_id: int
    is_commit: bool


StoredEvent = StoredRecord | EndedTransaction


def is_dense(buffer: Buffer, *, from_offset: int) -> bool:
    """Whether every offset from `from_offset` on is present: no record was compacted away."""
    for _, header in iter_headers(buffer):
        if header.base_offset > from_offset or header.record_count != header.last_offset_delta + 1:
            return False
        from_offset = header.next_offset
    return True


def events_of(buffer: Buffer, *, from_offset: int) -> Iterator[StoredEvent]:
    """All records and markers of the whole batches in `buffer` at and above `from_offset`. Raises CorruptBatchError.

    Records without a key and control records other than markers are skipped.
    """
    for position, header in iter_headers(buffer):
        if header.next_offset <= from_offset:
            continue
        if header.is_control:
            marker = read_end_transaction_marker(buffer, position)
            if marker is not None:
                yield EndedTransaction(header.producer_id, marker.is_commit)
            continue
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        for record in records_of(buffer, position):
            if record.key is not None and record.offset >= from_offset:
                yield StoredRecord(record.key, record.value, record.offset, producer_id)


def load_decoder() -> None:
    """Loads what `NewestRecords` would load at its first batch; for callers that expect one."""
    import broker_core.record.columns  # noqa: F401


class NewestRecords:
    """Takes a log's buffers in order, from its first offset on; then returns what to replay."""

    def __init__(self, *, from_offset: int = 0) -> None:
        self._from_offset = from_offset
        self._chunks: list[pa.RecordBatch] = []
        self._open: dict[int, list[_OffsetRange]] = {}
        self._aborted: list[_OffsetRange] = []

    def add(self, buffer: Buffer) -> None:
        """Whole batches with valid CRCs. Raises CorruptBatchError for damaged content."""
        from broker_core.record.columns import decode

        self._follow_transactions(buffer)
        view = memoryview(buffer).cast("B")
        while view.nbytes:
            decoded = decode(view, from_offset=self._from_offset, columns=_COLUMNS)
            self._chunks.append(decoded.record_batch)
            if not decoded.bytes_consumed:
                return
            view = view[decoded.bytes_consumed :]

    def events(self) -> Iterator[StoredEvent]:
        """Yields the newest committed record of each key, in log order; then those of open transactions."""
        open_ranges = sorted(written for of_one in self._open.values() for written in of_one)
        not_committed = sorted([*self._aborted, *open_ranges])
        newest: dict[bytes | None, int] = {}
        first_row = 0
        for chunk in self._chunks:
            keys = chunk.column("key").to_pylist()
            for start, until in _rows_outside(chunk, not_committed):
                newest.update(zip(keys[start:until], range(first_row + start, first_row + until), strict=True))
            first_row += len(keys)
        newest.pop(None, None)
        yield from self._records_at(sorted(newest.values()))
        for each in open_ranges:
            yield from self._records_in(each)

    def _follow_transactions(self, buffer: Buffer) -> None:
        table = scan_batches(buffer, check_crc=False).table
        bits_of_all = table.column(Cell.ATTRIBUTES).tolist()
        producer_ids = table.column(Cell.PRODUCER_ID).tolist()
        base_offsets, deltas = table.column(Cell.BASE_OFFSET).tolist(), table.column(Cell.LAST_OFFSET_DELTA).tolist()
        record_counts = table.column(Cell.RECORD_COUNT).tolist()
        for row, bits in enumerate(bits_of_all):
            if not bits & TRANSACTIONAL_BIT:
                continue
            if not bits & CONTROL_BIT:
                first = base_offsets[row]
                written = _OffsetRange(first, first + deltas[row], producer_ids[row])
                self._open.setdefault(producer_ids[row], []).append(written)
                continue
            marker = _marker_at(buffer, table.position(row), bits) if record_counts[row] else None
            if marker is not None:
                ended = self._open.pop(producer_ids[row], [])
                self._aborted += [] if marker.is_commit else ended

    def _records_at(self, rows: list[int]) -> Iterator[StoredRecord]:
        """`rows` ascend, counted through all chunks."""
        first_row, at = 0, 0
        for chunk in self._chunks:
            until = bisect_left(rows, first_row + chunk.num_rows, lo=at)
            if until > at:
                chosen = chunk.take(_index_array([row - first_row for row in rows[at:until]]))
                yield from map(StoredRecord._make, _fields_of(chosen, NO_PRODUCER_ID))
            first_row, at = first_row + chunk.num_rows, until

    def _records_in(self, wanted: _OffsetRange) -> Iterator[StoredRecord]:
        for chunk in self._chunks:
            start, until = _rows_between(chunk, wanted.first, wanted.last)
            for fields in _fields_of(chunk.slice(start, until - start), wanted.producer_id):
                if fields[0] is not None:
                    yield StoredRecord._make(fields)


class _OffsetRange(NamedTuple):
    """One transactional batch: [first, last]."""

    first: int
    last: int
    producer_id: int


@dataclass(frozen=True, slots=True)
class _Offsets:
    """A chunk's offsets as a sequence for `bisect`."""

    column: pa.Int64Array

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, row: int) -> int:
        return int(self.column[row].as_py())


def _index_array(rows: list[int]) -> pa.Int64Array:
    """Goes through a buffer: `pa.array` of a list would first import pandas if that is installed."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(array("q", rows))])


def _rows_between(chunk: pa.RecordBatch, first: int, last: int) -> tuple[int, int]:
    offsets = _Offsets(chunk.column("offset"))
    start = bisect_left(offsets, first)
    return start, bisect_left(offsets, last + 1, lo=start)


def _rows_outside(chunk: pa.RecordBatch, ranges: list[_OffsetRange]) -> Iterator[tuple[int, int]]:
    """The rows of the chunk that lie in none of the ascending ranges, as half-open runs."""
    at = 0
    if chunk.num_rows and ranges:
        offsets = _Offsets(chunk.column("offset"))
        lowest, highest = offsets[0], offsets[len(offsets) - 1]
        for each in ranges[max(bisect_left(ranges, (lowest,)) - 1, 0) :]:
            if each.first > highest:
                break
            start = bisect_left(offsets, each.first, lo=at)
            if start > at:
                yield at, start
            at = bisect_left(offsets, each.last + 1, lo=start)
    if at < chunk.num_rows:
        yield at, chunk.num_rows


def _fields_of(rows: pa.RecordBatch, producer_id: int) -> Iterator[tuple[bytes | None, bytes | None, int, int]]:
    columns = (rows.column(name).to_pylist() for name in ("key", "value", "offset"))
    return ((key, value, offset, producer_id) for key, value, offset in zip(*columns, strict=True))


def _marker_at(buffer: Buffer, position: int, bits: int) -> EndTransactionMarker | None:
    """The marker in the control batch; the usual form is parsed by hand, because a log holds thousands of them."""
    view = memoryview(buffer)
    at = position + HEADER_BYTES + 2  # behind the record's length, one byte, and its attributes
    try:
        while view[at] & 0x80:
            at += 1  # the timestamp's distance from the batch's, larger than one byte once a compaction has been here
        at += 2
        kind = view[at + len(_MARKER_KEY)]
    except IndexError:
        return read_end_transaction_marker(buffer, position)
    is_usual = not bits & COMPRESSION_MASK and bytes(view[at : at + len(_MARKER_KEY)]) == _MARKER_KEY
    if is_usual and kind in (ControlType.ABORT, ControlType.COMMIT):
        return EndTransactionMarker(is_commit=kind == ControlType.COMMIT, coordinator_epoch=-1)
    return read_end_transaction_marker(buffer, position)
