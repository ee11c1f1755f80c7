"""The walk over a batch's records, each checked to the last byte: the twin of kernel_measure.pxi."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from broker_core.model.limits import MAX_RECORD_HEADER_COUNT
from broker_core.record.batch_header import LOG_APPEND_TIME_BIT
from broker_core.record.faults import Fault, KernelFault
from broker_core.record.kernel_protocol import Cell
from broker_core.record.varint import read_varint, read_varlong

_MIN_RECORD_BYTES = 7
_MIN_HEADER_BYTES = 2
_MIN_INT64 = -(2**63)


class RawRecord(NamedTuple):
    """One record as positions in its payload; -1 sizes are null. Headers are (key start, size, value start, size)."""

    offset: int
    timestamp: int
    key_start: int
    key_size: int
    value_start: int
    value_size: int
    headers: tuple[tuple[int, int, int, int], ...]
    is_out_of_order: bool
    """Not above every record before it. Kafka stores such a record in an uncompressed batch, and no reader gets it: a
    consumer that has read the ones before asks for higher offsets."""
    is_beyond_batch: bool
    """Above the last offset of its batch. Kafka stores it too, and its consumers get it."""


def walk_records(payload: memoryview, cells: Sequence[int]) -> Iterator[RawRecord]:
    """The records of one batch, each checked to the last byte. `cells` is the batch's row of the table."""
    position, end = cells[Cell.PAYLOAD_START], cells[Cell.PAYLOAD_END]
    base_offset, base_timestamp = cells[Cell.BASE_OFFSET], cells[Cell.BASE_TIMESTAMP]
    count, last_delta = cells[Cell.RECORD_COUNT], cells[Cell.LAST_OFFSET_DELTA]
    if count > (end - position) // _MIN_RECORD_BYTES:
        raise KernelFault(Fault.RECORD_COUNT, found=count, bound=end - position)
    previous = -1
    for _ in range(count):
        length, position = read_varint(payload, position, end)
        if length < 0 or length > end - position:
            raise KernelFault(Fault.RECORD_LENGTH, found=length, bound=end - position)
        record_end = position + length
        timestamp_delta, position = read_varlong(payload, position + 1, record_end)
        offset_delta, position = read_varint(payload, position, record_end)
        is_out_of_order = offset_delta <= previous
        previous = max(previous, offset_delta)
        key_start, key_size = _maybe_field(payload, position, record_end, Fault.KEY_LENGTH)
        value_start, value_size = _maybe_field(payload, key_start + max(0, key_size), record_end, Fault.VALUE_LENGTH)
        headers, position = _walk_headers(payload, value_start + max(0, value_size), record_end)
        if position != record_end:
            raise KernelFault(Fault.RECORD_TRAILING, found=record_end - position)
        timestamp = _wrapped(base_timestamp + timestamp_delta)
        if cells[Cell.ATTRIBUTES] & LOG_APPEND_TIME_BIT:
            timestamp = cells[Cell.MAX_TIMESTAMP]
        yield RawRecord(
            *(_wrapped(base_offset + offset_delta), timestamp, key_start, key_size, value_start, value_size, headers),
            is_out_of_order,
            offset_delta > last_delta,
        )
    if position != end:
        raise KernelFault(Fault.BATCH_TRAILING, found=end - position, bound=count)


def _wrapped(number: int) -> int:
    """To 64 bits, as Java adds."""
    return (number - _MIN_INT64) % 2**64 + _MIN_INT64


def _field(payload: memoryview, position: int, end: int, fault: Fault) -> tuple[int, int]:
    size, position = read_varint(payload, position, end)
    if size < 0 or size > end - position:
        raise KernelFault(fault, found=size, bound=end - position)
    return position, size


def _maybe_field(payload: memoryview, position: int, end: int, fault: Fault) -> tuple[int, int]:
    """-1 for null. As in Kafka's readers, any negative size is null."""
    size, position = read_varint(payload, position, end)
    if size > end - position:
        raise KernelFault(fault, found=size, bound=end - position)
    return position, max(size, -1)


def _walk_headers(payload: memoryview, position: int, end: int) -> tuple[tuple[tuple[int, int, int, int], ...], int]:
    count, position = read_varint(payload, position, end)
    if count == 0:
        return (), position
    if count < 0 or count > (end - position) // _MIN_HEADER_BYTES or count > MAX_RECORD_HEADER_COUNT:
        raise KernelFault(Fault.HEADER_COUNT, found=count, bound=end - position)
    headers = []
    for _ in range(count):
        key_start, key_size = _field(payload, position, end, Fault.HEADER_KEY_LENGTH)
        value_start, value_size = _maybe_field(payload, key_start + key_size, end, Fault.HEADER_VALUE_LENGTH)
        position = value_start + max(0, value_size)
        headers.append((key_start, key_size, value_start, value_size))
    return tuple(headers), position
