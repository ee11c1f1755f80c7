"""Batches in a buffer, one at a time, and their records as Python values.

For coordinators, recovery, compaction and tools. Readers of data use `columns`, which creates no object per record;
`scan_batches` reads the headers of a large buffer without one object per batch, for recovery and index building.

An incomplete batch at the end of a buffer is not an error: iteration stops before it. Bytes that cannot be a batch
raise CorruptBatchError or UnsupportedFormatError, with position in the buffer and base offset (`faults.relocated`
turns it into a position in a file).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import Buffer

from broker_core.model.exceptions import CorruptBatchError
from broker_core.model.limits import MAX_DECOMPRESSED_BATCH_BYTES
from broker_core.record.active_kernel import KERNEL
from broker_core.record.batch_header import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    compute_crc,
    read_header,
)
from broker_core.record.compression import decompress
from broker_core.record.faults import Fault, KernelFault, corrupt_batch, error_of_fault
from broker_core.record.kernel_protocol import MAX_INT64, TABLE_COLUMN_COUNT, Cell, Measured, ScanFault
from broker_core.record.pure_walk import walk_records

_TABLE_ROW = struct.Struct(f"={TABLE_COLUMN_COUNT}q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record. `offset` -1 lets `build_batch` number it; header keys are text, as in Kafka, in their order."""

    key: bytes | None = None
    value: bytes | None = None
    timestamp_ms: int = -1
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = -1


class RecordsSummary(NamedTuple):
    """What a broker needs from a batch's content. Timestamps of an empty batch are -1."""

    record_count: int
    max_timestamp_ms: int
    max_timestamp_offset: int
    null_key_count: int
    is_contiguous: bool
    """Offset deltas are 0, 1, 2, … up to the last, as producers send them; compaction leaves gaps."""


class BatchTable:
    """Headers of many batches as numbers: `len()`, a header as an object, or a column as a strided memoryview."""

    def __init__(self, table: bytearray) -> None:
        self._cells = memoryview(table).cast("q")

    def __len__(self) -> int:
        return len(self._cells) // TABLE_COLUMN_COUNT

    def column(self, cell: Cell) -> memoryview:
        """One number per batch; `.tolist()` converts it to a list."""
        return self._cells[cell::TABLE_COLUMN_COUNT]

    def position(self, row: int) -> int:
        """Where the batch starts in the scanned buffer. Rows count from the end when negative."""
        return int(self.column(Cell.POSITION)[row])

    def header(self, row: int) -> BatchHeader:
        start = (row if row >= 0 else row + len(self)) * TABLE_COLUMN_COUNT
        cells = self._cells[start : start + TABLE_COLUMN_COUNT]
        return BatchHeader._make(
            (
                *(cells[Cell.BASE_OFFSET], cells[Cell.SIZE_BYTES] - LENGTH_PREFIX_BYTES, cells[Cell.LEADER_EPOCH]),
                *(MAGIC, cells[Cell.CRC], cells[Cell.ATTRIBUTES], cells[Cell.LAST_OFFSET_DELTA]),
                *cells[Cell.BASE_TIMESTAMP : Cell.LEADER_EPOCH],
            )
        )


class ScannedBatches(NamedTuple):
    """`bytes_scanned` end after the last whole, valid batch; `fault` is the error if the next one is invalid."""

    table: BatchTable
    bytes_scanned: int
    fault: CorruptBatchError | None


def iter_headers(buffer: Buffer, *, position: int = 0, until: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch from `position` on that ends at or before `until`. No CRC is checked."""
    view = memoryview(buffer)
    end = view.nbytes if until is None else min(until, view.nbytes)
    while end - position > MAGIC_POSITION:
        if end - position < HEADER_BYTES and _claimed_bytes(view, position) > end - position:
            return
        header = read_header(view, position)
        if header.size_bytes > end - position:
            return
        yield position, header
        position += header.size_bytes


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raises CorruptBatchError unless `buffer` has the whole batch and its CRC is correct."""
    left = memoryview(buffer).nbytes - position
    if header.size_bytes > left:
        raise corrupt_batch(
            f"batch claims {header.size_bytes} bytes, but only {left} are left",
            position=position,
            offset=header.base_offset,
        )
    actual = compute_crc(buffer, position, header.size_bytes)
    if actual != header.crc:
        fault = KernelFault(Fault.CRC, found=actual, bound=header.crc)
        raise error_of_fault(fault, position=position, offset=header.base_offset)


def scan_batches(buffer: Buffer, *, position: int = 0, check_crc: bool = True) -> ScannedBatches:
    """Headers of the whole, valid batches from `position` on, by the native kernel. Never raises for invalid bytes."""
    table, end, fault = KERNEL.scan_batches(buffer, position, 0, MAX_INT64, MAX_INT64, check_crc)
    return ScannedBatches(BatchTable(table), end, None if fault is None else _scan_error(ScanFault(*fault)))


def records_of(buffer: Buffer, position: int = 0, *, max_bytes: int = MAX_DECOMPRESSED_BATCH_BYTES) -> Iterator[Record]:
    """The records of the batch at `position`, control records too, CRC checked first. Slow: one object per record."""
    header = read_header(buffer, position)
    check_crc(buffer, position, header)
    payload = memoryview(_payload(buffer, position, header, max_bytes)).cast("B")
    try:
        for raw in walk_records(payload, _cells(header, position, payload)):
            yield Record(
                offset=raw.offset,
                timestamp_ms=raw.timestamp,
                key=_bytes_at(payload, raw.key_start, raw.key_size),
                value=_bytes_at(payload, raw.value_start, raw.value_size),
                headers=tuple(
                    (bytes(payload[ks : ks + kn]).decode("utf-8", "replace"), _bytes_at(payload, vs, vn))
                    for ks, kn, vs, vn in raw.headers
                ),
            )
    except KernelFault as fault:
        raise error_of_fault(fault, position=position, offset=header.base_offset) from None


def inspect_records(
    buffer: Buffer,
    position: int = 0,
    *,
    header: BatchHeader | None = None,
    max_bytes: int = MAX_DECOMPRESSED_BATCH_BYTES,
) -> RecordsSummary:
    """Walks the whole batch at `position` natively. Raises CorruptBatchError for invalid content; no CRC check.

    Control batches are walked too. `header`: if it was read already.
    """
    header = header or read_header(buffer, position)
    payload = memoryview(_payload(buffer, position, header, max_bytes)).cast("B")
    # The walk starts at 0, whatever the producer's base offset is.
    walked = header._replace(base_offset=0, attributes=header.attributes & ~CONTROL_BIT)
    table = _TABLE_ROW.pack(*_cells(walked, position, payload))
    try:
        found = Measured(*KERNEL.measure_records([payload], table, 0, MAX_INT64, MAX_INT64))
    except KernelFault as fault:
        raise error_of_fault(fault, position=position, offset=header.base_offset) from None
    is_contiguous = found.gap_count == 0 and found.row_count == header.last_offset_delta + 1
    if not found.row_count:
        return RecordsSummary(0, -1, -1, 0, False)
    return RecordsSummary(
        found.row_count,
        found.max_timestamp,
        header.base_offset + found.max_timestamp_offset,
        found.key_nulls,
        is_contiguous,
    )


def find_refused_records(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    *,
    needs_key: bool,
    earliest_ms: int,
    latest_ms: int,
    max_count: int,
) -> list[tuple[int, bool, int]]:
    """`Kernel.find_refused` for the batch at `position`. Raises CorruptBatchError for invalid content."""
    payload = memoryview(_payload(buffer, position, header, MAX_DECOMPRESSED_BATCH_BYTES)).cast("B")
    row = _TABLE_ROW.pack(*_cells(header._replace(base_offset=0), position, payload))
    try:
        return KERNEL.find_refused(payload, row, needs_key, earliest_ms, latest_ms, max_count)
    except KernelFault as fault:
        raise error_of_fault(fault, position=position, offset=header.base_offset) from None


def batch_payload(
    buffer: Buffer, position: int, header: BatchHeader, *, max_bytes: int = MAX_DECOMPRESSED_BATCH_BYTES
) -> Buffer:
    """The decompressed record bytes of a whole batch. Raises CorruptBatchError with the batch's position."""
    return _payload(buffer, position, header, max_bytes)


def _payload(buffer: Buffer, position: int, header: BatchHeader, max_bytes: int) -> Buffer:
    content = memoryview(buffer)[position + HEADER_BYTES : position + header.size_bytes]
    if content.nbytes != header.size_bytes - HEADER_BYTES:
        what = f"batch claims {header.size_bytes} bytes where {content.nbytes + HEADER_BYTES} are left"
        raise corrupt_batch(what, position=position, offset=header.base_offset)
    if not header.attributes & COMPRESSION_MASK or (not header.record_count and not content.nbytes):
        return content
    try:
        return decompress(header.compression_type, content, max_bytes=max_bytes)
    except CorruptBatchError as error:
        raise corrupt_batch(error.message, position=position, offset=header.base_offset) from error


def _cells(header: BatchHeader, position: int, payload: memoryview) -> list[int]:
    return [
        position, header.size_bytes, header.base_offset, header.last_offset_delta, header.attributes,
        header.base_timestamp, header.max_timestamp, header.producer_id, header.producer_epoch, header.base_sequence,
        header.record_count, header.partition_leader_epoch, 0, 0, payload.nbytes, header.crc,
    ]  # fmt: skip


def _bytes_at(payload: memoryview, start: int, size: int) -> bytes | None:
    return None if size < 0 else bytes(payload[start : start + size])


def _claimed_bytes(view: memoryview, position: int) -> int:
    return int.from_bytes(view[position + 8 : position + 12], "big", signed=True) + LENGTH_PREFIX_BYTES


def _scan_error(fault: ScanFault) -> CorruptBatchError:
    found = KernelFault(fault.fault, found=fault.found, bound=fault.bound)
    error = error_of_fault(found, position=fault.position, offset=fault.base_offset)
    if isinstance(error, CorruptBatchError):
        return error
    return corrupt_batch(found.what, position=fault.position, offset=fault.base_offset)
