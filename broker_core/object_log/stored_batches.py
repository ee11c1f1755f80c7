"""The format of batches in data objects, and the conversion of their offsets when they are read.

The fold over the commits assigns offsets, so a writer does not know them: in an object a batch's base offset is
relative to the start of its range. A batch's CRC does not cover base offset and leader epoch. The leader epoch has no
use here and is replaced by a checksum, so that every field is covered:

    partition_leader_epoch = CRC-32C of base offset (8 bytes), batch length (4) and the batch's CRC (4)

`place` checks it and writes the offset in the log and leader epoch 0. Placing a batch twice fails the check.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import crc32c

from broker_core.model.exceptions import CorruptBatchError
from broker_core.record.batch_header import LENGTH_PREFIX_BYTES, write_placement
from broker_core.record.batch_reader import iter_headers, scan_batches
from broker_core.record.faults import corrupt_batch, relocated
from broker_core.record.kernel_protocol import Cell

_PLACEMENT = struct.Struct(">qiI")


class SealedBatches(NamedTuple):
    """The totals of the batches of one range; see `DataRange`."""

    offset_count: int
    record_count: int
    first_timestamp_ms: int
    max_timestamp_ms: int


def seal(batches: bytearray | memoryview, *, first_offset: int = 0) -> SealedBatches:
    """Writes offsets relative to the range, from `first_offset` on, and checksums of them into whole batches, in place.

    Use `seal_placed` for batches with gaps between them. Raises CorruptBatchError.
    """
    offset, record_count, first_ms, max_ms, end = first_offset, 0, -1, -1, 0
    for position, header in iter_headers(batches):
        write_placement(batches, position, base_offset=offset, leader_epoch=_checksum(offset, header[1], header.crc))
        offset += header.last_offset_delta + 1
        record_count += header.record_count
        first_ms = max(-1, header.max_timestamp) if position == 0 else first_ms
        max_ms = max(max_ms, header.max_timestamp)
        end = position + header.size_bytes
    _require_whole(batches, end)
    return SealedBatches(offset - first_offset, record_count, first_ms, max_ms)


def seal_placed(batches: bytearray | memoryview, *, base_offset: int) -> SealedBatches:
    """The same for batches with offsets of the log, also with gaps: the offsets become relative to `base_offset`.

    `offset_count` ends after the last batch.
    """
    next_offset, record_count, first_ms, max_ms, end = base_offset, 0, -1, -1, 0
    for position, header in iter_headers(batches):
        relative = header.base_offset - base_offset
        assert header.base_offset >= next_offset, f"offset {header.base_offset} cannot follow {next_offset}"
        write_placement(
            batches, position, base_offset=relative, leader_epoch=_checksum(relative, header[1], header.crc)
        )
        next_offset = header.next_offset
        record_count += header.record_count
        first_ms = max(-1, header.max_timestamp) if position == 0 else first_ms
        max_ms = max(max_ms, header.max_timestamp)
        end = position + header.size_bytes
    _require_whole(batches, end)
    return SealedBatches(next_offset - base_offset, record_count, first_ms, max_ms)


class PlacedBatches(NamedTuple):
    """Whole batches at the start of a buffer: their bytes, their count, and the next offset after the last one."""

    size_bytes: int
    batch_count: int
    next_offset: int


def place(
    batches: bytearray | memoryview, *, base_offset: int, offset_count: int, file: str, file_position: int
) -> PlacedBatches:
    """Checks the whole batches of a range and writes their offsets of the log, in place.

    `batches` begins with a batch of the range at `base_offset` and may end within one. `file`, `file_position`: their
    origin, for errors. Raises CorruptBatchError."""
    table, size_bytes, fault = scan_batches(batches)
    if fault is not None:
        raise relocated(fault, file=file, shift_bytes=file_position)
    next_relative = 0
    for position, size, relative, last_delta, crc, epoch in zip(
        table.column(Cell.POSITION).tolist(),
        table.column(Cell.SIZE_BYTES).tolist(),
        table.column(Cell.BASE_OFFSET).tolist(),
        table.column(Cell.LAST_OFFSET_DELTA).tolist(),
        table.column(Cell.CRC).tolist(),
        table.column(Cell.LEADER_EPOCH).tolist(),
        strict=True,
    ):
        if _checksum(relative, size - LENGTH_PREFIX_BYTES, crc) != epoch:
            what = "the checksum of the batch's position is wrong"
        elif relative < next_relative or relative + last_delta >= offset_count:
            what = f"offsets {relative} to {relative + last_delta} of the batch do not match its range"
        else:
            next_relative = relative + last_delta + 1
            write_placement(batches, position, base_offset=base_offset + relative, leader_epoch=0)
            continue
        raise corrupt_batch(what, position=file_position + position, offset=base_offset + relative, file=file)
    return PlacedBatches(size_bytes, len(table), base_offset + next_relative)


def _checksum(base_offset: int, batch_length: int, crc: int) -> int:
    """The checksum as the signed number of the header's field."""
    unsigned = int(crc32c.crc32c(_PLACEMENT.pack(base_offset, batch_length, crc)))
    return unsigned - (1 << 32) if unsigned >= 1 << 31 else unsigned


def _require_whole(batches: bytearray | memoryview, end: int) -> None:
    if end != len(batches) or end == 0:
        raise CorruptBatchError(f"{len(batches) - end} bytes follow the last whole batch of a range", position=end)
