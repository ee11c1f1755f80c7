"""The encoding part of the slow kernel: Arrow rows to record batches, murmur2, rows by partition, keys of a filter.

See kernel_protocol for the contract; `pure_kernel` re-exports these functions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple

from typing_extensions import Buffer

from broker_core.model.limits import MAX_BATCH_BYTES, MAX_RECORD_HEADER_COUNT, MAX_SEQUENCE
from broker_core.record.batch_header import HEADER_BYTES, LENGTH_PREFIX_BYTES, BatchHeader, write_crc
from broker_core.record.faults import Fault, KernelFault
from broker_core.record.kernel_protocol import MAX_INT64, BatchStamp, BinaryColumn, NumberColumn, RecordColumns
from broker_core.record.key_places import BLOCK_BYTES, key_place
from broker_core.record.varint import append_varint, varint_bytes

_PLAN_ROW = struct.Struct("=4q")
_MASK = 0xFFFFFFFF
_MURMUR_SEED, _MURMUR_FACTOR, _MURMUR_SHIFT = 0x9747B28C, 0x5BD1E995, 24
_MIN_INT64 = -(2**63)


class _Row(NamedTuple):
    number: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None
    headers: list[tuple[memoryview, memoryview | None]]


class _BinaryReader:
    """Random access to an Arrow binary column; a missing column is null."""

    def __init__(self, column: BinaryColumn | None) -> None:
        self.column = column
        if column is not None:
            self.offsets = memoryview(column.offsets).cast("B").cast("i" if column.offset_width == 4 else "q")
            self.data = memoryview(column.data or b"").cast("B")
            self.validity = None if column.validity is None else memoryview(column.validity).cast("B")

    def __getitem__(self, row: int) -> memoryview | None:
        if self.column is None:
            return None
        index = self.column.start + row
        if not _is_valid(self.validity, index):
            return None
        begin, end = self.offsets[index], self.offsets[index + 1]
        if begin < 0 or end < begin or end > self.data.nbytes:
            raise KernelFault(Fault.ARROW_OFFSETS, found=row)
        return self.data[begin:end]


class _RowReader:
    """The rows of RecordColumns, in the order asked for."""

    def __init__(self, columns: RecordColumns) -> None:
        self.columns = columns
        self.keys = _BinaryReader(columns.key)
        self.values = _BinaryReader(columns.value)
        headers = columns.headers
        self.header_keys = _BinaryReader(headers.keys if headers else None)
        self.header_values = _BinaryReader(headers.values if headers else None)

    def __iter__(self) -> Iterator[_Row]:
        count = self.columns.row_count
        rows = range(count) if self.columns.rows is None else memoryview(self.columns.rows).cast("B").cast("i")
        for row in rows:
            if not 0 <= row < count:
                raise KernelFault(Fault.ROW_INDEX, found=row, bound=count)
            yield _Row(row, self._timestamp(row), self.keys[row], self.values[row], self._headers(row))

    def _timestamp(self, row: int) -> int:
        column = self.columns.timestamp
        number = None if column is None else _number_at(column, "q", row)
        return self.columns.default_timestamp_ms if number is None else number

    def _headers(self, row: int) -> list[tuple[memoryview, memoryview | None]]:
        column = self.columns.headers
        if column is None:
            return []
        index = column.start + row
        if column.validity is not None and not _is_valid(memoryview(column.validity).cast("B"), index):
            return []
        offsets = memoryview(column.offsets).cast("B").cast("i")
        if offsets[index + 1] - offsets[index] > MAX_RECORD_HEADER_COUNT:
            raise KernelFault(Fault.TOO_MANY_HEADERS, found=row, bound=offsets[index + 1] - offsets[index])
        headers = []
        for child in range(offsets[index], offsets[index + 1]):
            key = self.header_keys[child]
            if key is None:
                raise KernelFault(Fault.NULL_HEADER_KEY, found=row)
            headers.append((key, self.header_values[child]))
        return headers


def _is_valid(validity: memoryview | None, index: int) -> bool:
    return validity is None or bool(validity[index >> 3] >> (index & 7) & 1)


def _number_at(column: NumberColumn, kind: Literal["i", "q"], row: int) -> int | None:
    index = column.start + row
    if column.validity is not None and not _is_valid(memoryview(column.validity).cast("B"), index):
        return None
    number: int = memoryview(column.data).cast("B").cast(kind)[index]
    return number


def _field_bytes(field: memoryview | None) -> int:
    return 1 if field is None else varint_bytes(field.nbytes) + field.nbytes


def _body_bytes(row: _Row, base_timestamp: int, offset_delta: int) -> int:
    delta = row.timestamp - base_timestamp
    if not _MIN_INT64 <= delta <= MAX_INT64:
        raise KernelFault(Fault.TIMESTAMP_SPAN, found=row.timestamp, bound=base_timestamp)
    size = 1 + varint_bytes(delta) + varint_bytes(offset_delta) + _field_bytes(row.key) + _field_bytes(row.value)
    size += varint_bytes(len(row.headers))
    size += sum(_field_bytes(key) + _field_bytes(value) for key, value in row.headers)
    if size + varint_bytes(size) + HEADER_BYTES > MAX_BATCH_BYTES:
        raise KernelFault(Fault.RECORD_TOO_LARGE, found=row.number, bound=size)
    return size


def _record_bytes(row: _Row, base_timestamp: int, offset_delta: int) -> int:
    body = _body_bytes(row, base_timestamp, offset_delta)
    return varint_bytes(body) + body


def plan_batches(columns: RecordColumns, max_batch_bytes: int) -> bytearray:
    plan = bytearray()
    count, size, base_timestamp, max_timestamp = 0, HEADER_BYTES, 0, _MIN_INT64
    for row in _RowReader(columns):
        if count:
            record_bytes = _record_bytes(row, base_timestamp, count)
            if size + record_bytes > max_batch_bytes:
                plan += _PLAN_ROW.pack(count, size, base_timestamp, max_timestamp)
                count, size, max_timestamp = 0, HEADER_BYTES, _MIN_INT64
        if count == 0:
            base_timestamp = row.timestamp
            record_bytes = _record_bytes(row, base_timestamp, 0)
        count += 1
        size += record_bytes
        max_timestamp = max(max_timestamp, row.timestamp)
    if count:
        plan += _PLAN_ROW.pack(count, size, base_timestamp, max_timestamp)
    return plan


def write_batches(columns: RecordColumns, plan: Buffer, stamp: BatchStamp, with_crc: bool, output: Buffer) -> None:
    target = memoryview(output).cast("B")
    rows = iter(_RowReader(columns))
    position = 0
    base_offset = 0
    for count, size, base_timestamp, max_timestamp in _PLAN_ROW.iter_unpack(memoryview(plan).cast("B")):
        sequence = stamp.base_sequence
        header = BatchHeader(
            base_offset=base_offset,
            batch_length=size - LENGTH_PREFIX_BYTES,
            partition_leader_epoch=-1,
            attributes=stamp.attributes,
            last_offset_delta=count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=stamp.producer_id,
            producer_epoch=stamp.producer_epoch,
            base_sequence=sequence if sequence < 0 else (sequence + base_offset) % (MAX_SEQUENCE + 1),
            record_count=count,
        )
        batch = bytearray(header.to_bytes())
        for offset_delta in range(count):
            append_record(batch, next(rows), base_timestamp, offset_delta)
        if len(batch) != size:
            raise KernelFault(Fault.CHANGED_BUFFER)
        if with_crc:
            write_crc(batch, 0)
        target[position : position + size] = batch
        position += size
        base_offset += count


def new_buffer(size: int) -> bytearray:
    return bytearray(size)


def append_record(batch: bytearray, row: _Row, base_timestamp: int, offset_delta: int) -> None:
    append_varint(batch, _body_bytes(row, base_timestamp, offset_delta))
    batch.append(0)
    append_varint(batch, row.timestamp - base_timestamp)
    append_varint(batch, offset_delta)
    _append_field(batch, row.key)
    _append_field(batch, row.value)
    append_varint(batch, len(row.headers))
    for key, value in row.headers:
        _append_field(batch, key)
        _append_field(batch, value)


def _append_field(batch: bytearray, field: memoryview | None) -> None:
    if field is None:
        append_varint(batch, -1)
    else:
        append_varint(batch, field.nbytes)
        batch += field


def assign_partitions(
    row_count: int,
    key: BinaryColumn | None,
    explicit: NumberColumn | None,
    partition_count: int,
    sticky: int,
    output: Buffer,
) -> None:
    keys = _BinaryReader(key)
    partitions = memoryview(output).cast("B").cast("i")
    for row in range(row_count):
        partition = None if explicit is None else _number_at(explicit, "i", row)
        if partition is None:
            content = keys[row]
            partition = sticky if content is None else (murmur2(content) & 0x7FFFFFFF) % partition_count
        if not 0 <= partition < partition_count:
            raise KernelFault(Fault.PARTITION_RANGE, row=row, found=partition, bound=partition_count)
        partitions[row] = partition


def group_rows(partitions: Buffer, row_count: int, partition_count: int, rows: Buffer, bounds: Buffer) -> None:
    groups: list[list[int]] = [[] for _ in range(partition_count)]
    for row, partition in enumerate(memoryview(partitions).cast("B").cast("i")[:row_count]):
        if not 0 <= partition < partition_count:
            raise KernelFault(Fault.PARTITION_RANGE, row=row, found=partition, bound=partition_count)
        groups[partition].append(row)
    target = memoryview(rows).cast("B").cast("i")
    limits = memoryview(bounds).cast("B").cast("q")
    position = 0
    for partition, group in enumerate(groups):
        limits[partition] = position
        for row in group:
            target[position] = row
            position += 1
    limits[partition_count] = position


def murmur2(data: Buffer) -> int:
    view = memoryview(data).cast("B")
    digest = _MURMUR_SEED ^ view.nbytes
    whole = view.nbytes & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(view[position : position + 4], "little") * _MURMUR_FACTOR & _MASK
        word = (word ^ word >> _MURMUR_SHIFT) * _MURMUR_FACTOR & _MASK
        digest = (digest * _MURMUR_FACTOR & _MASK) ^ word
    if whole != view.nbytes:
        digest = (digest ^ int.from_bytes(view[whole:], "little")) * _MURMUR_FACTOR & _MASK
    digest = (digest ^ digest >> 13) * _MURMUR_FACTOR & _MASK
    digest ^= digest >> 15
    return digest - (1 << 32) if digest >= 1 << 31 else digest


def mark_keys(row_count: int, key: BinaryColumn, blocks: Buffer) -> None:
    bits = memoryview(blocks).cast("B")
    block_count = bits.nbytes // BLOCK_BYTES
    keys = _BinaryReader(key)
    for row in range(row_count):
        found = keys[row]
        if found is None:
            continue
        block, places = key_place(found, block_count)
        for place in places:
            bits[block * BLOCK_BYTES + (place >> 3)] |= 1 << (place & 7)
