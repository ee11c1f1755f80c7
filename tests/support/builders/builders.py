"""Builders of records, batches and logs for every suite. Each gives something valid; name what matters to the test."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import pyarrow as pa

from broker_core.model.identifiers import CompressionType, TimestampType
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_header import LENGTH_PREFIX_BYTES, BatchHeader, read_header, write_crc
from broker_core.record.batch_reader import Record
from broker_core.record.control_records import EndTransactionMarker, build_end_transaction_marker

SOME_TIME_MS = 1_700_000_000_000


def a_record(number=0, **fields):
    """key-<number>, value-<number>, one millisecond after the one before."""
    defaults = {
        "key": b"key-%d" % number,
        "value": b"value-%d" % number,
        "timestamp_ms": SOME_TIME_MS + number,
    }
    return Record(**(defaults | fields))


def some_records(count=3, **fields):
    return [a_record(number, **fields) for number in range(count)]


def a_batch(
    records: int | Iterable[Record] = 3,
    *,
    base_offset: int = 0,
    compression: CompressionType = CompressionType.NONE,
    producer: tuple[int, int, int] | None = None,
    is_transactional: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    **more: object,
) -> bytearray:
    """A batch of so many records, or of these. `producer` is (id, epoch, base sequence)."""
    producer_id, producer_epoch, base_sequence = producer or (-1, -1, -1)
    return build_batch(
        some_records(records) if isinstance(records, int) else records,
        base_offset=base_offset,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        timestamp_type=timestamp_type,
        **more,
    )


def a_transactional_batch(records=3, *, producer_id=7, base_offset=0, base_sequence=0, **more):
    producer = (producer_id, 0, base_sequence)
    return a_batch(records, base_offset=base_offset, producer=producer, is_transactional=True, **more)


def an_abort_marker(*, producer_id=7, base_offset=0, **more):
    return _a_marker(False, producer_id, base_offset, **more)


def a_commit_marker(*, producer_id=7, base_offset=0, **more):
    return _a_marker(True, producer_id, base_offset, **more)


def _a_marker(is_commit, producer_id, base_offset, *, producer_epoch=0, coordinator_epoch=0, timestamp_ms=SOME_TIME_MS):
    return build_end_transaction_marker(
        EndTransactionMarker(is_commit=is_commit, coordinator_epoch=coordinator_epoch),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
    )


def a_log(*batches):
    """The batches one behind the other, as bytes, with base offsets as they stand in them."""
    return b"".join(bytes(batch) for batch in batches)


def a_batch_of_content(content: bytes, *, record_count=1, last_offset_delta=None, **fields) -> bytearray:
    """A batch whose header and CRC are right for content that need not be: what a hostile producer sends."""
    header = BatchHeader(
        **(
            {
                "base_offset": 0,
                "batch_length": 49 + len(content),
                "partition_leader_epoch": -1,
                "last_offset_delta": max(0, record_count - 1) if last_offset_delta is None else last_offset_delta,
                "base_timestamp": SOME_TIME_MS,
                "max_timestamp": SOME_TIME_MS,
                "record_count": record_count,
            }
            | fields
        )
    )
    batch = bytearray(header.to_bytes() + content)
    if header.batch_length == 49 + len(content):
        write_crc(batch, 0)
    return batch


def with_header_field(batch, position, layout, value, *, repair_crc=True):
    """The batch with one header field overwritten, e.g. position 57, layout ">i" for the record count."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, position, value)
    if repair_crc and len(changed) >= read_header(batch).batch_length + LENGTH_PREFIX_BYTES:
        write_crc(changed, 0)
    return changed


def an_arrow_batch(count=3, **columns):
    """Arrow rows like those of `some_records`; further columns replace or join them."""
    defaults = {
        "key": pa.array([b"key-%d" % n for n in range(count)], pa.binary()),
        "value": pa.array([b"value-%d" % n for n in range(count)], pa.binary()),
        "timestamp": pa.array([SOME_TIME_MS + n for n in range(count)], pa.int64()),
    }
    return pa.record_batch(defaults | columns)


def rows_of(record_batch):
    """Decoded rows as tuples in the order of the batch's columns, timestamps in microseconds."""
    columns = []
    for name, column in zip(record_batch.schema.names, record_batch.columns, strict=True):
        columns.append((column.cast(pa.int64()) if name == "timestamp" else column).to_pylist())
    return list(zip(*columns, strict=True)) if columns else [()] * record_batch.num_rows
