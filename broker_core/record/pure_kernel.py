"""The slow twin of kernel.pyx: the same functions on the same buffers, for systems without a C compiler.

It is also the readable specification of the native kernel; a property test compares the two byte for byte. See
kernel_protocol for the contract. Decoding is here; the walk over a batch's records is in `pure_walk`; encoding,
partitioning and grouping are in `pure_encoder`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

import crc32c
from typing_extensions import Buffer

from broker_core.model.identifiers import NO_TIMESTAMP
from broker_core.record.batch_header import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    LEAST_LEGACY_LENGTH,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_BIT,
)
from broker_core.record.faults import Fault, KernelFault
from broker_core.record.kernel_protocol import (
    MAX_INT64,
    TABLE_COLUMN_COUNT,
    TIMESTAMP_MS_LIMIT,
    Cell,
    Measured,
    Outputs,
)
from broker_core.record.pure_encoder import (
    assign_partitions,
    group_rows,
    mark_keys,
    murmur2,
    new_buffer,
    plan_batches,
    write_batches,
)
from broker_core.record.pure_walk import RawRecord, walk_records

__all__ = [
    "KERNEL_NAME",
    "assign_partitions",
    "fill_records",
    "find_refused",
    "group_rows",
    "inspect_plain",
    "mark_keys",
    "measure_records",
    "murmur2",
    "new_buffer",
    "plan_batches",
    "scan_batches",
    "write_batches",
]

KERNEL_NAME = "pure"

_HEADER = struct.Struct(">qiibIhiqqqhii")
_ROW = struct.Struct(f"={TABLE_COLUMN_COUNT}q")
_MIN_BATCH_LENGTH = HEADER_BYTES - LENGTH_PREFIX_BYTES
_MAX_CODEC = 4
_MIN_INT64 = -(2**63)


def scan_batches(
    buffer: Buffer, position: int, from_offset: int, until_offset: int, max_bytes: int, check_crc: bool
) -> tuple[bytearray, int, tuple[int, int, int, int, int] | None]:
    view = memoryview(buffer).cast("B")
    table = bytearray()
    taken_bytes = 0
    while view.nbytes - position > MAGIC_POSITION:
        base_offset, batch_length = struct.unpack_from(">qi", view, position)
        fault = _header_fault(view, position, batch_length)
        if fault is not None:
            return table, position, (fault[0], position, base_offset, fault[1], fault[2])
        size = batch_length + LENGTH_PREFIX_BYTES
        if size > view.nbytes - position:
            break
        fields = _HEADER.unpack_from(view, position)
        _, _, leader_epoch, _, crc, attributes, last_delta, base_timestamp, max_timestamp, *producer, count = fields
        if base_offset < 0 or last_delta < 0 or count < 0 or base_offset > MAX_INT64 - 1 - last_delta:
            return table, position, (Fault.HEADER_OFFSETS, position, base_offset, base_offset, last_delta)
        if base_offset >= until_offset:
            break
        if base_offset + last_delta >= from_offset:
            if table and taken_bytes + size > max_bytes:
                break
            actual = crc32c.crc32c(view[position + ATTRIBUTES_POSITION : position + size]) if check_crc else crc
            if actual != crc:
                return table, position, (Fault.CRC, position, base_offset, actual, crc)
            taken_bytes += size
            table += _ROW.pack(
                position, size, base_offset, last_delta, attributes, base_timestamp, max_timestamp, *producer, count,
                leader_epoch, 0, position + HEADER_BYTES, position + size, crc,
            )  # fmt: skip
        position += size
    return table, position, None


def _header_fault(view: memoryview, position: int, batch_length: int) -> tuple[int, int, int] | None:
    magic = view[position + MAGIC_POSITION]
    if batch_length < LEAST_LEGACY_LENGTH:
        return Fault.HEADER_LENGTH, batch_length, _MIN_BATCH_LENGTH
    if magic != MAGIC:
        return (Fault.LEGACY_MAGIC if magic < MAGIC else Fault.UNKNOWN_MAGIC), magic, MAGIC
    if batch_length < _MIN_BATCH_LENGTH:
        return Fault.HEADER_LENGTH, batch_length, _MIN_BATCH_LENGTH
    if batch_length + LENGTH_PREFIX_BYTES <= view.nbytes - position:
        codec = view[position + ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK
        if codec > _MAX_CODEC:
            return Fault.UNKNOWN_CODEC, codec, _MAX_CODEC
    return None


def _table_rows(table: Buffer) -> Iterator[tuple[int, ...]]:
    return _ROW.iter_unpack(memoryview(table).cast("B"))


def measure_records(
    payloads: Sequence[Buffer], table: Buffer, from_offset: int, until_offset: int, max_rows: int
) -> tuple[int, ...]:
    views = [memoryview(payload).cast("B") for payload in payloads]
    tally = _Tally(from_offset)
    last_offset = -1
    for row, cells in enumerate(_table_rows(table)):
        try:
            if cells[Cell.BASE_OFFSET] <= last_offset:
                raise KernelFault(Fault.BATCH_ORDER, found=cells[Cell.BASE_OFFSET], bound=last_offset)
            last_offset = cells[Cell.BASE_OFFSET] + cells[Cell.LAST_OFFSET_DELTA]
            stopped_at = None
            if cells[Cell.PAYLOAD_BUFFER] >= 0 and not cells[Cell.ATTRIBUTES] & CONTROL_BIT:
                payload = views[cells[Cell.PAYLOAD_BUFFER]]
                for record in walk_records(payload, cells):
                    tally.gap_count += record.is_out_of_order or record.is_beyond_batch
                    if record.offset < from_offset or record.is_out_of_order or stopped_at is not None:
                        continue
                    if record.is_beyond_batch:
                        # The batch ends before it, so a later call could not continue there.
                        if record.offset >= until_offset:
                            continue
                    elif record.offset >= until_offset or tally.row_count == max_rows:
                        stopped_at = record.offset
                        continue
                    tally.add(payload, record)
        except KernelFault as fault:
            fault.row = row
            raise
        if stopped_at is not None:
            tally.next_offset = max(from_offset, min(stopped_at, until_offset))
            break
        tally.batches_done += 1
        tally.next_offset = max(from_offset, min(last_offset + 1, until_offset))
    return tally.measured()


def inspect_plain(batch: Buffer) -> tuple[int, int] | None:
    view = memoryview(batch).cast("B")
    if view.nbytes < HEADER_BYTES or view[MAGIC_POSITION] != MAGIC:
        return None
    _, batch_length, _, _, crc, attributes, last_delta, *_, count = _HEADER.unpack_from(view)
    if batch_length + LENGTH_PREFIX_BYTES != view.nbytes or attributes & ~TRANSACTIONAL_BIT:
        return None
    if not count == last_delta + 1 > 0 or crc32c.crc32c(view[ATTRIBUTES_POSITION:]) != crc:
        return None
    # The walk starts at 0, whatever the producer's base offset is.
    walked = bytes(8) + view[8:]
    table, _, _ = scan_batches(walked, 0, 0, MAX_INT64, MAX_INT64, False)
    try:
        measured = Measured(*measure_records([walked], table, 0, MAX_INT64, MAX_INT64))
    except KernelFault:
        return None
    return (measured.max_timestamp, measured.key_nulls) if measured.gap_count == 0 else None


def find_refused(
    payload: Buffer, row: Buffer, needs_key: bool, earliest_ms: int, latest_ms: int, max_count: int
) -> list[tuple[int, bool, int]]:
    records = walk_records(memoryview(payload).cast("B"), _ROW.unpack_from(memoryview(row).cast("B")))
    refused = (
        (index, needs_key and record.key_size < 0, record.timestamp)
        for index, record in enumerate(records)
        if (needs_key and record.key_size < 0)
        or not (record.timestamp == NO_TIMESTAMP or earliest_ms <= record.timestamp <= latest_ms)
    )
    return list(islice(refused, max_count))


class _Tally:
    def __init__(self, from_offset: int) -> None:
        self.row_count = self.batches_done = 0
        self.next_offset = from_offset
        self.sums = [0] * 10
        self.max_timestamp = _MIN_INT64
        self.max_timestamp_offset = -1
        self.gap_count = 0
        self.previous_offset = -1

    def add(self, payload: memoryview, record: RawRecord) -> None:
        header_keys = [bytes(payload[start : start + size]) for start, size, _, _ in record.headers]
        value_sizes = [size for _, _, _, size in record.headers]
        amounts = (
            max(0, record.key_size),
            record.key_size < 0,
            max(0, record.value_size),
            record.value_size < 0,
            bool(header_keys),
            len(header_keys),
            sum(map(len, header_keys)),
            sum(size for size in value_sizes if size > 0),
            sum(size < 0 for size in value_sizes),
            not all(key.isascii() for key in header_keys),
        )
        self.sums = [total + amount for total, amount in zip(self.sums, amounts, strict=True)]
        self.sums[9] = min(1, self.sums[9])
        if record.timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = record.timestamp, record.offset
        self.gap_count += self.row_count > 0 and record.offset != self.previous_offset + 1
        self.previous_offset = record.offset
        self.row_count += 1

    def measured(self) -> Measured:
        return Measured._make(
            [
                *(self.row_count, self.batches_done, self.next_offset),
                *map(int, self.sums),
                *(self.max_timestamp, self.max_timestamp_offset, self.gap_count),
            ]
        )


def fill_records(
    payloads: Sequence[Buffer],
    table: Buffer,
    from_offset: int,
    until_offset: int,
    row_count: int,
    outputs: Outputs,
) -> None:
    views = [memoryview(payload).cast("B") for payload in payloads]
    sink = _Sink(outputs)
    for row, cells in enumerate(_table_rows(table)):
        if cells[Cell.PAYLOAD_BUFFER] < 0 or cells[Cell.ATTRIBUTES] & CONTROL_BIT:
            continue
        payload = views[cells[Cell.PAYLOAD_BUFFER]]
        try:
            for record in walk_records(payload, cells):
                if sink.row == row_count or (record.offset >= until_offset and not _is_passed_over(record)):
                    break
                if from_offset <= record.offset < until_offset and not record.is_out_of_order:
                    sink.add(payload, record, bool(cells[Cell.ATTRIBUTES] & LOG_APPEND_TIME_BIT))
        except KernelFault as fault:
            fault.row = row
            raise
        if sink.row == row_count:
            break
    if sink.row != row_count:
        raise KernelFault(Fault.CHANGED_BUFFER)


def _is_passed_over(record: RawRecord) -> bool:
    """Whether records of the range may follow one that is above it."""
    return record.is_out_of_order or record.is_beyond_batch


class _Sink:
    """Writes records into Arrow buffers, row by row."""

    def __init__(self, outputs: Outputs) -> None:
        self.row = 0
        self.header = 0
        self.offsets = _numbers(outputs.offsets, "q")
        self.timestamps = _numbers(outputs.timestamps, "q")
        self.timestamp_types = _numbers(outputs.timestamp_types, "i")
        self.list_validity = _bitmap(outputs.list_validity)
        self.list_offsets = _numbers(outputs.list_offsets, "i")
        self.keys = _BinarySink(outputs.key_validity, outputs.key_offsets, outputs.key_data)
        self.values = _BinarySink(outputs.value_validity, outputs.value_offsets, outputs.value_data)
        self.header_keys = _BinarySink(None, outputs.header_key_offsets, outputs.header_key_data)
        self.header_values = _BinarySink(
            outputs.header_value_validity, outputs.header_value_offsets, outputs.header_value_data
        )
        if self.list_offsets is not None:
            self.list_offsets[0] = 0

    def add(self, payload: memoryview, record: RawRecord, is_log_append_time: bool) -> None:
        row = self.row
        if self.offsets is not None:
            self.offsets[row] = record.offset
        if self.timestamps is not None:
            if not -TIMESTAMP_MS_LIMIT <= record.timestamp <= TIMESTAMP_MS_LIMIT:
                raise KernelFault(Fault.TIMESTAMP_RANGE, found=record.timestamp, bound=record.offset)
            self.timestamps[row] = record.timestamp * 1000
        if self.timestamp_types is not None:
            self.timestamp_types[row] = int(is_log_append_time)
        self.keys.put(row, payload, record.key_start, record.key_size)
        self.values.put(row, payload, record.value_start, record.value_size)
        if self.list_offsets is not None:
            for key_start, key_size, value_start, value_size in record.headers:
                self.header_keys.put(self.header, payload, key_start, key_size)
                self.header_values.put(self.header, payload, value_start, value_size)
                self.header += 1
            self.list_offsets[row + 1] = self.header
            _set_bit(self.list_validity, row, bool(record.headers))
        self.row += 1


class _BinarySink:
    def __init__(self, validity: Buffer | None, offsets: Buffer | None, data: Buffer | None) -> None:
        self.validity = _bitmap(validity)
        self.offsets = _numbers(offsets, "i")
        self.data = None if data is None else memoryview(data).cast("B")
        self.used = 0
        if self.offsets is not None:
            self.offsets[0] = 0

    def put(self, row: int, payload: memoryview, start: int, size: int) -> None:
        if self.offsets is None:
            return
        if size > 0 and self.data is not None:
            if self.used + size > self.data.nbytes:
                raise KernelFault(Fault.CHANGED_BUFFER)
            self.data[self.used : self.used + size] = payload[start : start + size]
            self.used += size
        self.offsets[row + 1] = self.used
        _set_bit(self.validity, row, size >= 0)


def _numbers(buffer: Buffer | None, kind: Literal["i", "q"]) -> memoryview | None:
    return None if buffer is None else memoryview(buffer).cast("B").cast(kind)


def _bitmap(buffer: Buffer | None) -> memoryview | None:
    if buffer is None:
        return None
    view = memoryview(buffer).cast("B")
    view[:] = bytes(view.nbytes)
    return view


def _set_bit(bitmap: memoryview | None, row: int, is_valid: bool) -> None:
    if bitmap is not None and is_valid:
        bitmap[row >> 3] |= 1 << (row & 7)
