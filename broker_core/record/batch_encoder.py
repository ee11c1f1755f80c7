"""Encodes Arrow rows as record batches, without an object per record.

The kernel first plans where batches end and how large each is, then writes them into one buffer of exactly that size.
With a codec, each planned batch is then compressed and gets its final header.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pyarrow as pa

from broker_core.model.exceptions import InvalidRecordError, InvalidRequestError, StreamlogError
from broker_core.model.identifiers import CompressionType
from broker_core.model.limits import DEFAULT_WRITE_BATCH_BYTES, MAX_BATCH_BYTES, MAX_SEQUENCE
from broker_core.record.active_kernel import KERNEL
from broker_core.record.batch_header import HEADER_BYTES, LENGTH_PREFIX_BYTES, TRANSACTIONAL_BIT, write_crc
from broker_core.record.column_input import header_column, index_buffer, key_or_value_column, timestamp_column
from broker_core.record.compression import compress
from broker_core.record.faults import Fault, KernelFault, error_of_fault
from broker_core.record.kernel_protocol import BatchStamp, Kernel, RecordColumns

_PLAN_ROW = struct.Struct("=4q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """The idempotent producer that writes the batches. `base_sequence` is the first record's sequence."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedBatches:
    """Consecutive batches in `buffer`, with base offsets ascending from 0.

    `next_sequence` is the producer's next base sequence, -1 without a producer.
    """

    buffer: bytearray
    record_count: int
    batch_count: int
    next_sequence: int


def encode(
    columns: pa.RecordBatch | pa.StructArray,
    *,
    rows: pa.Int32Array | None = None,
    default_timestamp_ms: int,
    compression: CompressionType = CompressionType.NONE,
    level: int | None = None,
    max_batch_bytes: int = DEFAULT_WRITE_BATCH_BYTES,
    producer: Producer | tuple[int, int, int] | None = None,
    is_transactional: bool = False,
    kernel: Kernel = KERNEL,
) -> EncodedBatches:
    """Record batches of the rows.

    `columns` may have `key` and `value` (binary or string of any width, null for none), `timestamp` (timestamp, or
    int64 milliseconds; null means `default_timestamp_ms`) and `headers` (list of struct of key and value); others are
    ignored. `rows` picks rows by int32 index, in its order. `producer` may be given as (id, epoch, base sequence).

    A batch ends before it would exceed `max_batch_bytes`, measured uncompressed; a larger record gets a batch of its
    own. Without rows there are no batches. Raises InvalidRecordError (null header key, too many headers, timestamps too
    far apart for 64 bits), RecordTooLargeError (beyond 2 GiB), InvalidRequestError (unsuitable column types)."""
    stamp = _stamp(producer, compression, is_transactional)
    columns = pa.RecordBatch.from_struct_array(columns) if isinstance(columns, pa.StructArray) else columns
    record_columns = _record_columns(columns, rows, default_timestamp_ms)
    try:
        plan = kernel.plan_batches(record_columns, min(max_batch_bytes, MAX_BATCH_BYTES))
        batches = list(_PLAN_ROW.iter_unpack(plan))
        total_bytes = sum(size for _, size, _, _ in batches)
        if compression is CompressionType.NONE:
            buffer = kernel.new_buffer(total_bytes)
            kernel.write_batches(record_columns, plan, stamp, True, buffer)
        else:
            loose = pa.allocate_buffer(total_bytes)
            kernel.write_batches(record_columns, plan, stamp, False, loose)
            buffer = _compress_batches(memoryview(loose), [size for _, size, _, _ in batches], compression, level)
    except KernelFault as fault:
        raise _error_of(fault, columns) from None
    record_count = sum(count for count, _, _, _ in batches)
    sequence = stamp.base_sequence
    return EncodedBatches(
        buffer=buffer,
        record_count=record_count,
        batch_count=len(batches),
        next_sequence=sequence if sequence < 0 else (sequence + record_count) % (MAX_SEQUENCE + 1),
    )


def _stamp(
    producer: Producer | tuple[int, int, int] | None, compression: CompressionType, is_transactional: bool
) -> BatchStamp:
    attributes = compression | (TRANSACTIONAL_BIT if is_transactional else 0)
    if producer is None:
        assert not is_transactional, "a transactional batch needs a producer"
        return BatchStamp(attributes, -1, -1, -1)
    if isinstance(producer, tuple):
        return BatchStamp(attributes, *producer)
    return BatchStamp(attributes, producer.producer_id, producer.producer_epoch, producer.base_sequence)


def _error_of(fault: KernelFault, columns: pa.RecordBatch) -> StreamlogError:
    """For the kernel a null header has a null key, because Arrow flattens it."""
    if fault.fault is Fault.NULL_HEADER_KEY and None in columns.column("headers")[fault.found].as_py():
        return InvalidRecordError(f"a header of row {fault.found} is null; leave it out, or give it a key")
    return error_of_fault(fault, position=0, offset=-1)


def _record_columns(columns: pa.RecordBatch, rows: pa.Int32Array | None, default_timestamp_ms: int) -> RecordColumns:
    names = columns.schema.names
    for name in ("key", "value", "timestamp", "headers"):
        if names.count(name) > 1:
            raise InvalidRequestError(f"column {name!r} is given {names.count(name)} times")
    found = {name: columns.column(name) for name in ("key", "value", "timestamp", "headers") if name in names}
    return RecordColumns(
        row_count=columns.num_rows,
        key=key_or_value_column("key", found["key"]) if "key" in found else None,
        value=key_or_value_column("value", found["value"]) if "value" in found else None,
        timestamp=timestamp_column(found["timestamp"]) if "timestamp" in found else None,
        headers=header_column(found["headers"]) if "headers" in found else None,
        rows=None if rows is None else index_buffer(rows),
        default_timestamp_ms=default_timestamp_ms,
    )


def _compress_batches(
    loose: memoryview, sizes: list[int], compression: CompressionType, level: int | None
) -> bytearray:
    buffer = bytearray()
    position = 0
    for size in sizes:
        payload = compress(compression, loose[position + HEADER_BYTES : position + size], level)
        start = len(buffer)
        buffer += loose[position : position + HEADER_BYTES]
        buffer[start + 8 : start + 12] = (HEADER_BYTES - LENGTH_PREFIX_BYTES + len(payload)).to_bytes(4, "big")
        buffer += payload
        write_crc(buffer, start)
        position += size
    return buffer
