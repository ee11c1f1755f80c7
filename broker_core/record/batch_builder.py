"""Record batches from Python records: for coordinators, markers, compaction and tests.

Writers of data use `columns.encode`, which creates no object per record.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker_core.model.exceptions import InvalidRecordError, RecordTooLargeError
from broker_core.model.identifiers import NO_TIMESTAMP, CompressionType, TimestampType
from broker_core.model.limits import MAX_BATCH_BYTES
from broker_core.record.batch_header import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    write_crc,
)
from broker_core.record.batch_reader import Record
from broker_core.record.compression import compress
from broker_core.record.varint import append_varint, varint_bytes


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    compression: CompressionType = CompressionType.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time_ms: int = NO_TIMESTAMP,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    last_offset_delta: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """One batch. Records without an offset follow one another; Set `last_offset_delta` if compaction left a gap.

    With log-append time the max timestamp is `log_append_time_ms`. An empty batch has timestamps -1. Raises
    InvalidRecordError for offsets that do not ascend or exceed the last delta, RecordTooLargeError for a batch
    above 2 GiB.
    """
    numbered = _number(records, base_offset)
    last_delta = numbered[-1][0] - base_offset if numbered else -1
    if last_offset_delta is not None and last_offset_delta < last_delta:
        raise InvalidRecordError(f"last offset delta {last_offset_delta} is below the last record's, {last_delta}")
    first_timestamp = numbered[0][1].timestamp_ms if numbered else NO_TIMESTAMP
    base_timestamp = first_timestamp if delete_horizon_ms is None else delete_horizon_ms
    max_timestamp = max((record.timestamp_ms for _, record in numbered), default=NO_TIMESTAMP)
    attributes = compression | (timestamp_type * LOG_APPEND_TIME_BIT) | (is_transactional * TRANSACTIONAL_BIT)
    attributes |= (is_control * CONTROL_BIT) | ((delete_horizon_ms is not None) * DELETE_HORIZON_BIT)
    content = bytearray()
    for offset, record in numbered:
        _append_record(content, record, offset - base_offset, record.timestamp_ms - base_timestamp)
    payload = compress(compression, content, level) if numbered else b""
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=HEADER_BYTES - LENGTH_PREFIX_BYTES + len(payload),
        partition_leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=max(0, last_delta) if last_offset_delta is None else last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=log_append_time_ms if timestamp_type is TimestampType.LOG_APPEND_TIME else max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(numbered),
    )
    return _assemble(header, payload)


def build_empty_batch(header: BatchHeader) -> bytearray:
    """The batch of `header` without any record, as Kafka's cleaner leaves it: both timestamps are the max timestamp."""
    attributes = header.attributes & (LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT)
    empty = header._replace(
        batch_length=HEADER_BYTES - LENGTH_PREFIX_BYTES,
        attributes=attributes,
        base_timestamp=header.max_timestamp,
        record_count=0,
    )
    return _assemble(empty, b"")


def _number(records: Iterable[Record], base_offset: int) -> list[tuple[int, Record]]:
    numbered: list[tuple[int, Record]] = []
    next_offset = base_offset
    for record in records:
        offset = next_offset if record.offset == -1 else record.offset
        if offset < next_offset:
            raise InvalidRecordError(f"record offset {offset} is below {next_offset}: offsets must ascend")
        numbered.append((offset, record))
        next_offset = offset + 1
    return numbered


def _append_record(content: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    body = bytearray(1)
    append_varint(body, timestamp_delta)
    append_varint(body, offset_delta)
    _append_field(body, record.key)
    _append_field(body, record.value)
    append_varint(body, len(record.headers))
    for key, value in record.headers:
        _append_field(body, key.encode())
        _append_field(body, value)
    append_varint(content, len(body))
    content += body


def _append_field(body: bytearray, field: bytes | None) -> None:
    append_varint(body, -1 if field is None else len(field))
    body += field or b""


def record_bytes(record: Record, *, offset_delta: int = 0, timestamp_delta: int = 0) -> int:
    """The size of the record in an uncompressed batch."""
    body = 1 + varint_bytes(timestamp_delta) + varint_bytes(offset_delta) + varint_bytes(len(record.headers))
    for field in (record.key, record.value, *(part for key, value in record.headers for part in (key.encode(), value))):
        body += 1 if field is None else varint_bytes(len(field)) + len(field)
    return varint_bytes(body) + body


def _assemble(header: BatchHeader, payload: bytes) -> bytearray:
    if header.batch_length > MAX_BATCH_BYTES - LENGTH_PREFIX_BYTES:
        raise RecordTooLargeError(f"a batch of {header.size_bytes} bytes exceeds the format's {MAX_BATCH_BYTES}")
    batch = bytearray(header.to_bytes())
    batch += payload
    write_crc(batch, 0)
    return batch
