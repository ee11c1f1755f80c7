"""Published bounds: how far a partition is durable and visible, in one small file that is read without a lock.

`partition.bounds`, 1024 bytes, big-endian, two slots at 0 and 512 (one disk sector each); publish number n goes to slot
n % 2, in place, after the data's fdatasync:

    0  magic "SLPB"         16 generation             48 active segment's base offset     80 greatest timestamp in ms
    4  version int16 (1)    24 log start offset       56 its valid size in bytes          88 dense from this offset on
    6  zero int16           32 log end offset         64 its flushed size in bytes        96 CRC-32C of the bytes before
    8  sequence int64       40 last stable offset     72 its .txnindex size in bytes

A change after which files of the older bounds are gone is published twice, so that both slots have it, and synced. An
append is published by one write, also if it begins a segment: what readers have seen is never undone, so nothing that
may fail comes after it.

A reader uses the valid slot with the higher sequence. A torn slot fails its CRC, and the other one has the bounds that
were published just before: older, never wrong. If both are invalid, or without the file (a real Kafka's directory), the
bounds are derived by a scan, see `recovery`.

Compaction leaves gaps between offsets, below `dense_from_offset`; from there on a gap is damage.
`generation` changes whenever the set of segment files changes other than by appends: roll, delete, swap, truncate.
Earlier segments, and the active one up to its flushed size, are on the device: a bad batch there is corruption. After
the flushed size it is a torn tail. With flush.policy=batch the flushed size is the valid size.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import crc32c

from broker_core.model.identifiers import NO_TIMESTAMP
from broker_core.ports import File, FileSystem

BOUNDS_FILE_NAME = "partition.bounds"
BOUNDS_FILE_BYTES = 1024

_SLOT_STRIDE_BYTES = 512
_SLOT = struct.Struct(">4shh11q")
_CRC = struct.Struct(">I")
_SEQUENCE = struct.Struct(">q")
_SEQUENCE_POSITION = 8
_MAGIC = b"SLPB"
_VERSION = 1


class PublishedBounds(NamedTuple):
    """One published state of a partition. Offsets are half-open ends, sizes bytes of whole, synced batches.

    A tuple in the order of the bytes, because one is created for each group of appends.
    """

    sequence: int = 0
    generation: int = 0
    log_start_offset: int = 0
    log_end_offset: int = 0
    last_stable_offset: int = 0
    active_base_offset: int = 0
    active_size_bytes: int = 0
    flushed_size_bytes: int = 0
    active_transaction_index_bytes: int = 0
    max_timestamp_ms: int = NO_TIMESTAMP
    dense_from_offset: int = 0

    def encode(self) -> bytes:
        """One slot, without padding."""
        packed = _SLOT.pack(_MAGIC, _VERSION, 0, *self)
        return packed + _CRC.pack(crc32c.crc32c(packed))


def decode_bounds(data: bytes) -> PublishedBounds | None:
    """The newer valid slot of a bounds file's bytes; None when neither is valid."""
    if len(data) < BOUNDS_FILE_BYTES:
        data = data.ljust(BOUNDS_FILE_BYTES, b"\0")
    # The slot with the higher sequence first: if it is valid, the other is not parsed.
    positions = (0, _SLOT_STRIDE_BYTES)
    if _claimed_sequence(data, 0) < _claimed_sequence(data, _SLOT_STRIDE_BYTES):
        positions = (_SLOT_STRIDE_BYTES, 0)
    for position in positions:
        slot = _decode_slot(data, position)
        if slot is not None:
            return slot
    return None


def _claimed_sequence(data: bytes, position: int) -> int:
    sequence: int = _SEQUENCE.unpack_from(data, position + _SEQUENCE_POSITION)[0]
    return sequence


def _decode_slot(data: bytes, position: int) -> PublishedBounds | None:
    packed = data[position : position + _SLOT.size]
    crc_bytes = data[position + _SLOT.size : position + _SLOT.size + _CRC.size]
    if len(crc_bytes) < _CRC.size or packed[:4] != _MAGIC or _CRC.unpack(crc_bytes)[0] != crc32c.crc32c(packed):
        return None
    fields = _SLOT.unpack(packed)
    if fields[1] != _VERSION:
        return None
    return PublishedBounds._make(fields[3:])


class BoundsFile:
    """The open bounds file of one partition."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._data: bytes | None = None
        self._published: PublishedBounds | None = None

    @classmethod
    def open(cls, fs: FileSystem, directory: str, *, writable: bool, create: bool = False) -> BoundsFile | None:
        """None when it does not exist and is not to be created. A new file has its full size at once, so that
        publishing never needs space on the disk."""
        path = f"{directory}/{BOUNDS_FILE_NAME}"
        try:
            file = fs.open(path, writable=writable, create=create)
        except FileNotFoundError:
            return None
        if create and file.size_bytes() < BOUNDS_FILE_BYTES:
            file.write_at(0, file.read_at(0, BOUNDS_FILE_BYTES).ljust(BOUNDS_FILE_BYTES, b"\0"))
        return cls(file)

    def read(self) -> PublishedBounds | None:
        """The published bounds, the same object while the file's bytes are the same; None when no slot is valid."""
        data = self._file.read_at(0, BOUNDS_FILE_BYTES)
        if data != self._data:
            self._published, self._data = decode_bounds(data), data
        return self._published

    def publish(self, bounds: PublishedBounds) -> None:
        """Makes `bounds` visible to every reader. They survive a crash of the process; after `sync`, of the machine."""
        self._file.write_at(bounds.sequence % 2 * _SLOT_STRIDE_BYTES, bounds.encode())

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self._file.close()
