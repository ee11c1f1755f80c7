"""Decodes the whole record batches of a fetched buffer into one Arrow record batch, without an object per record.

Two passes over the records: one checks every byte and measures the columns, one fills buffers of exactly that size
from Arrow's pool (glibc would return such large ones to the kernel after each use). No allocation depends on a count
in the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from typing_extensions import Buffer

from broker_core.cluster import AbortedTransaction
from broker_core.model.exceptions import CorruptBatchError, CorruptDataError
from broker_core.model.identifiers import CompressionType
from broker_core.model.limits import MAX_DECODED_BYTES, MAX_DECOMPRESSED_BATCH_BYTES
from broker_core.record.aborted_filter import AbortedFilter
from broker_core.record.active_kernel import KERNEL
from broker_core.record.batch_header import COMPRESSION_MASK, CONTROL_BIT, LENGTH_PREFIX_BYTES, TRANSACTIONAL_BIT
from broker_core.record.column_buffers import ALL_COLUMNS, DECODED_SCHEMA, ColumnBuffers
from broker_core.record.compression import decompress
from broker_core.record.control_records import ControlType, read_control_type
from broker_core.record.faults import KernelFault, corrupt_batch, error_of_fault, relocated
from broker_core.record.kernel_protocol import HIDDEN, MAX_INT64, TABLE_COLUMN_COUNT, Cell, Kernel, Measured

DEFAULT_COLUMNS: Final = ALL_COLUMNS - {"headers"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedBatches:
    """Rows of a buffer, and the position after them.

    `next_offset` is the first offset that was not processed; `bytes_consumed` ends after the last batch that was
    processed completely. To continue in the same buffer, decode it from that byte and from `next_offset` on. If
    `bytes_consumed` is 0, there are no rows and `next_offset` is unchanged, the buffer has no whole batch of the range.
    """

    record_batch: pa.RecordBatch
    next_offset: int
    bytes_consumed: int


def decode(
    buffer: Buffer,
    *,
    from_offset: int,
    until_offset: int | None = None,
    columns: frozenset[str] | None = None,
    aborted: AbortedFilter | Sequence[AbortedTransaction] | None = None,
    max_rows: int | None = None,
    max_bytes: int = MAX_DECODED_BYTES,
    file: str | None = None,
    file_position: int = 0,
    kernel: Kernel = KERNEL,
) -> DecodedBatches:
    """The records of offsets [from_offset, until_offset) in `buffer`, as columns of DECODED_SCHEMA.

    `columns` None means all but headers; the row count does not depend on the columns. Records of control batches
    are left out, and with `aborted` (read-committed) those of aborted transactions; pass one AbortedFilter through all
    buffers of a sequential read. An incomplete batch at the end is ignored. At most `max_rows` rows, and at most
    `max_bytes` of batches, by their decompressed size (at least one batch): the result may end before the buffer does,
    see DecodedBatches.

    Raises CorruptBatchError (CRC, lengths, counts, offsets out of order, bombs), UnsupportedFormatError (old formats,
    unknown codecs, a timestamp out of the range of microseconds), both with the position in `file` if given.
    """
    wanted = DEFAULT_COLUMNS if columns is None else columns
    assert wanted <= ALL_COLUMNS, f"no such columns: {sorted(wanted - ALL_COLUMNS)}"
    until = MAX_INT64 if until_offset is None else until_offset
    hider = aborted if isinstance(aborted, AbortedFilter) or aborted is None else AbortedFilter(aborted)
    try:
        return _decode(memoryview(buffer).cast("B"), from_offset, until, wanted, hider, max_rows, max_bytes, kernel)
    except CorruptDataError as error:
        if file is None:
            raise
        raise relocated(error, file=file, shift_bytes=file_position) from None


def _decode(
    buffer: Buffer,
    from_offset: int,
    until_offset: int,
    wanted: frozenset[str],
    hider: AbortedFilter | None,
    max_rows: int | None,
    max_bytes: int,
    kernel: Kernel,
) -> DecodedBatches:
    table, scanned_end, fault = kernel.scan_batches(buffer, 0, from_offset, until_offset, max_bytes, True)
    cells = memoryview(table).cast("q")
    scanned_cells = len(cells)
    before = hider.copy() if hider is not None else None
    payloads, row_count = _reveal(buffer, cells, hider, max_bytes)
    if row_count * TABLE_COLUMN_COUNT != len(cells):
        scanned_end = cells[row_count * TABLE_COLUMN_COUNT + Cell.POSITION]
        cells = cells[: row_count * TABLE_COLUMN_COUNT]
    try:
        rows_wanted = MAX_INT64 if max_rows is None else max_rows
        measured = Measured(*kernel.measure_records(payloads, cells, from_offset, until_offset, rows_wanted))
        target = ColumnBuffers(measured, wanted)
        kernel.fill_records(payloads, cells, from_offset, until_offset, measured.row_count, target.outputs)
    except KernelFault as kernel_fault:
        start = kernel_fault.row * TABLE_COLUMN_COUNT
        place = (cells[start + Cell.POSITION], cells[start + Cell.BASE_OFFSET]) if kernel_fault.row >= 0 else (0, -1)
        raise error_of_fault(kernel_fault, position=place[0], offset=place[1]) from None
    if measured.batches_done < row_count:
        scanned_end = cells[measured.batches_done * TABLE_COLUMN_COUNT + Cell.POSITION]
        if hider is not None and before is not None:
            hider.restore(before)
            _reveal_again(buffer, cells[: measured.batches_done * TABLE_COLUMN_COUNT], hider)
    elif fault is not None and row_count * TABLE_COLUMN_COUNT == scanned_cells:
        code, position, base_offset, found, bound = fault
        raise error_of_fault(KernelFault(code, found=found, bound=bound), position=position, offset=base_offset)
    elif _starts_at_or_above(buffer, scanned_end, until_offset):
        # There is nothing up to the end of the range, even if the offsets before it were removed.
        return DecodedBatches(
            record_batch=target.record_batch(), next_offset=max(from_offset, until_offset), bytes_consumed=scanned_end
        )
    return DecodedBatches(
        record_batch=target.record_batch(), next_offset=measured.next_offset, bytes_consumed=scanned_end
    )


def _starts_at_or_above(buffer: Buffer, position: int, until_offset: int) -> bool:
    head = memoryview(buffer)[position : position + LENGTH_PREFIX_BYTES]
    return head.nbytes == LENGTH_PREFIX_BYTES and int.from_bytes(head[:8], "big", signed=True) >= until_offset


def _reveal(buffer: Buffer, cells: memoryview, hider: AbortedFilter | None, max_bytes: int) -> tuple[list[Buffer], int]:
    """Decompresses batches, and hides aborted ones in `cells`. Returns (payloads, rows of the table that fit)."""
    payloads: list[Buffer] = [buffer]
    special = COMPRESSION_MASK | (CONTROL_BIT | TRANSACTIONAL_BIT if hider is not None else 0)
    inflated_bytes = 0
    attributes_of_all: list[int] = cells[Cell.ATTRIBUTES :: TABLE_COLUMN_COUNT].tolist()
    for row, attributes in enumerate(attributes_of_all):
        if not attributes & special:
            continue
        batch = cells[row * TABLE_COLUMN_COUNT : (row + 1) * TABLE_COLUMN_COUNT]
        if inflated_bytes >= max_bytes:
            return payloads, row
        if hider is not None and attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) and _is_hidden(buffer, batch, hider):
            batch[Cell.PAYLOAD_BUFFER] = HIDDEN
        elif attributes & COMPRESSION_MASK and not attributes & CONTROL_BIT:
            payload = memoryview(_inflate(buffer, batch))
            batch[Cell.PAYLOAD_BUFFER] = len(payloads)
            batch[Cell.PAYLOAD_START] = 0
            batch[Cell.PAYLOAD_END] = payload.nbytes
            payloads.append(payload)
            inflated_bytes += payload.nbytes
    return payloads, len(attributes_of_all)


def _reveal_again(buffer: Buffer, cells: memoryview, hider: AbortedFilter) -> None:
    for start in range(0, len(cells), TABLE_COLUMN_COUNT):
        batch = cells[start : start + TABLE_COLUMN_COUNT]
        if batch[Cell.ATTRIBUTES] & (TRANSACTIONAL_BIT | CONTROL_BIT):
            _is_hidden(buffer, batch, hider)


def _is_hidden(buffer: Buffer, batch: memoryview, hider: AbortedFilter) -> bool:
    last_offset = batch[Cell.BASE_OFFSET] + batch[Cell.LAST_OFFSET_DELTA]
    if not batch[Cell.ATTRIBUTES] & CONTROL_BIT:
        return hider.is_hidden(batch[Cell.PRODUCER_ID], last_offset)
    if batch[Cell.RECORD_COUNT] and read_control_type(buffer, batch[Cell.POSITION]) is ControlType.ABORT:
        hider.on_abort_marker(batch[Cell.PRODUCER_ID], last_offset)
    return True


def _inflate(buffer: Buffer, batch: memoryview) -> Buffer:
    content = memoryview(buffer)[batch[Cell.PAYLOAD_START] : batch[Cell.PAYLOAD_END]]
    if not batch[Cell.RECORD_COUNT] and not content.nbytes:
        return b""
    codec = CompressionType(batch[Cell.ATTRIBUTES] & COMPRESSION_MASK)
    try:
        return decompress(codec, content, max_bytes=MAX_DECOMPRESSED_BATCH_BYTES)
    except CorruptBatchError as error:
        raise corrupt_batch(error.message, position=batch[Cell.POSITION], offset=batch[Cell.BASE_OFFSET]) from error


__all__ = ["ALL_COLUMNS", "DECODED_SCHEMA", "DEFAULT_COLUMNS", "DecodedBatches", "decode"]
