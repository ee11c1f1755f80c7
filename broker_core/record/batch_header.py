"""The 61 bytes at the start of a v2 record batch.

    0  base_offset             int64   written by the leader, outside the CRC
    8  batch_length            int32   bytes that follow this field
    12 partition_leader_epoch  int32   written by the leader, outside the CRC
    16 magic                   int8    2
    17 crc                     uint32  CRC-32C of everything from byte 21 to the end
    21 attributes              int16   bits 0-2 codec, 3 log-append time, 4 transactional, 5 control, 6 delete horizon
    23 last_offset_delta       int32
    27 base_timestamp          int64   the delete horizon if bit 6 is set; records' deltas count from it
    35 max_timestamp           int64
    43 producer_id             int64
    51 producer_epoch          int16
    53 base_sequence           int32
    57 record_count            int32   0 in a batch that compaction emptied
    61 records, compressed as a whole if a codec is set

All numbers are big-endian. `read_header` reads only the header: the batch may be truncated after it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import crc32c
from typing_extensions import Buffer

from broker_core.model.identifiers import CompressionType, TimestampType
from broker_core.model.limits import MAX_SEQUENCE
from broker_core.record.faults import Fault, KernelFault, error_of_fault

HEADER_BYTES = 61
LENGTH_PREFIX_BYTES = 12
"""Base offset and batch length: the fields before the bytes that `batch_length` counts."""
MAGIC = 2
LEAST_LEGACY_LENGTH = 14
"""The bytes after the length of the smallest message of formats v0 and v1; anything shorter is not a message."""
MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
LAST_OFFSET_DELTA_POSITION = 23
MAX_TIMESTAMP_POSITION = 35
PRODUCER_POSITION = 43
RECORD_COUNT_POSITION = 57

COMPRESSION_MASK = 0x07
MAX_CODEC = int(max(CompressionType))
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

WritableBytes = bytearray | memoryview
"""A buffer of batches whose placement fields are set in place."""

_LAYOUT = struct.Struct(">qiibIhiqqqhii")
_PLACEMENT_OFFSET = struct.Struct(">q")
_PLACEMENT_EPOCH = struct.Struct(">i")
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")
_MIN_BATCH_LENGTH = HEADER_BYTES - LENGTH_PREFIX_BYTES


class BatchHeader(NamedTuple):
    """Fields of a batch header, in the order of the bytes. A tuple, because one is created for each batch of an
    append."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int = MAGIC
    crc: int = 0
    attributes: int = 0
    last_offset_delta: int = 0
    base_timestamp: int = -1
    max_timestamp: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    record_count: int = 0

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.batch_length + LENGTH_PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression_type(self) -> CompressionType:
        return CompressionType(self.attributes & COMPRESSION_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When a compactor may drop this batch's tombstones and markers (KIP-534)."""
        return self.base_timestamp if self.has_delete_horizon else None

    @property
    def last_sequence(self) -> int:
        """Sequence of the last offset; -1 without sequences. Wraps from MAX_SEQUENCE to 0."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) % (MAX_SEQUENCE + 1)

    def to_bytes(self) -> bytes:
        """The 61 bytes, with the value of the `crc` field."""
        return _LAYOUT.pack(*self)


def placed_header(header: BatchHeader, *, base_offset: int, leader_epoch: int) -> BatchHeader:
    """The header with the base offset and leader epoch of an append."""
    return BatchHeader._make((base_offset, header.batch_length, leader_epoch, *header[3:]))


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Reads the header at `position` and validates its numbers, but not the CRC.

    Raises UnsupportedFormatError for message formats v0 and v1 and unknown codecs, CorruptBatchError for fewer than 61
    bytes, an unknown magic, a batch length below a header's, a negative last delta or record count.
    """
    view = memoryview(buffer)
    left = view.nbytes - position
    if left > MAGIC_POSITION:
        magic = view[position + MAGIC_POSITION]
        (batch_length,) = _LENGTH.unpack_from(view, position + 8)
        if batch_length < LEAST_LEGACY_LENGTH:
            raise _refusal(view, position, Fault.HEADER_LENGTH, batch_length, _MIN_BATCH_LENGTH)
        if magic != MAGIC:
            fault = Fault.LEGACY_MAGIC if magic < MAGIC else Fault.UNKNOWN_MAGIC
            raise _refusal(view, position, fault, magic, MAGIC)
    if left < HEADER_BYTES:
        raise _refusal(view, position, Fault.HEADER_LENGTH, max(0, left), HEADER_BYTES)
    fields = _LAYOUT.unpack_from(view, position)
    if fields[1] < _MIN_BATCH_LENGTH:
        raise _refusal(view, position, Fault.HEADER_LENGTH, fields[1], _MIN_BATCH_LENGTH)
    if (fields[5] & COMPRESSION_MASK) > MAX_CODEC:
        raise _refusal(view, position, Fault.UNKNOWN_CODEC, fields[5] & COMPRESSION_MASK, MAX_CODEC)
    if fields[6] < 0 or fields[12] < 0:
        raise _refusal(view, position, Fault.HEADER_OFFSETS, fields[0], fields[6])
    return BatchHeader._make(fields)


def compute_crc(buffer: Buffer, position: int, size_bytes: int) -> int:
    """CRC-32C of the batch of `size_bytes` at `position`: covers its bytes from the attributes to the end."""
    view = memoryview(buffer)[position + ATTRIBUTES_POSITION : position + size_bytes]
    return int(crc32c.crc32c(view))


def write_placement(buffer: WritableBytes, position: int, *, base_offset: int, leader_epoch: int) -> None:
    """Writes base offset and leader epoch into the batch, in place. The CRC does not cover these fields."""
    _PLACEMENT_OFFSET.pack_into(buffer, position, base_offset)
    _PLACEMENT_EPOCH.pack_into(buffer, position + LENGTH_PREFIX_BYTES, leader_epoch)


def write_timestamps(
    buffer: WritableBytes, position: int, *, timestamp_type: TimestampType, max_timestamp_ms: int
) -> None:
    """Sets timestamp type and max timestamp in place, and updates the CRC. The batch must be complete."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + ATTRIBUTES_POSITION)
    attributes = (attributes & ~LOG_APPEND_TIME_BIT) | (timestamp_type * LOG_APPEND_TIME_BIT)
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes)
    _PLACEMENT_OFFSET.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, max_timestamp_ms)
    write_crc(buffer, position)


def write_log_append_time(buffer: WritableBytes, position: int, now_ms: int) -> None:
    """Marks the batch as appended at `now_ms`: every record has this time from now on. In place, with a new CRC."""
    write_timestamps(buffer, position, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp_ms=now_ms)


def write_plain_producer(
    buffer: WritableBytes, position: int, *, producer_id: int = -1, producer_epoch: int = -1, base_sequence: int = -1
) -> None:
    """Sets the producer, takes the batch out of any transaction, and updates the CRC, in place.

    Also removes a delete horizon, whose bit only a log's own compaction sets. The batch must be complete.
    """
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + ATTRIBUTES_POSITION)
    attributes &= ~(TRANSACTIONAL_BIT | DELETE_HORIZON_BIT)
    _ATTRIBUTES.pack_into(buffer, position + ATTRIBUTES_POSITION, attributes)
    _PRODUCER.pack_into(buffer, position + PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    write_crc(buffer, position)


def write_crc(buffer: WritableBytes, position: int) -> None:
    """Computes the CRC of the whole batch at `position` and writes it, in place."""
    size_bytes = int.from_bytes(memoryview(buffer)[position + 8 : position + 12], "big") + LENGTH_PREFIX_BYTES
    _CRC.pack_into(buffer, position + CRC_POSITION, compute_crc(buffer, position, size_bytes))


def _refusal(view: memoryview, position: int, fault: Fault, found: int, bound: int) -> Exception:
    prefix = view[position : position + 8]
    offset = int.from_bytes(prefix, "big", signed=True) if len(prefix) == 8 else -1
    return error_of_fault(KernelFault(fault, found=found, bound=bound), position=position, offset=offset)
