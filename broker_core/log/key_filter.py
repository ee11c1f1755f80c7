"""The key filter of a closed segment: a Bloom filter of its keys, beside it in `<base offset>.keyfilter`.

    0  magic "SLKF"           16  where the next segment begins    44  zero int32
    4  version int16 (1)      24  size of the .log in bytes        48  zero int64
    6  zero int16             32  records without a key            56  number of blocks int32
    8  base offset            40  zero int32                       60  CRC-32C of the bytes before
    64  the blocks, see `record.key_places`; none if no record has a key

Numbers are big-endian, of 64 bits unless noted. The zeros are reserved for later versions.

Contract: if a filter excludes a key, no record with it has an offset in [base, next). Compaction and retention only
remove records, so this stays true; truncation removes the filter before other records can get those offsets. A filter
is used only for a segment with the size and the end that it was built for, and only if header and block pass their
CRCs. Otherwise the segment is read, as without a filter.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import crc32c

from broker_core.model.limits import MAX_KEY_FILTER_BYTES
from broker_core.record.active_kernel import KERNEL
from broker_core.record.kernel_protocol import Kernel
from broker_core.record.key_places import BLOCK_BITS, BLOCK_BYTES, PROBE_COUNT, key_place

KEY_FILTER_HEADER_BYTES: Final = 64

_HEADER = struct.Struct(">4shhqqqqiiqi")
_CRC = struct.Struct(">I")
_MAGIC = b"SLKF"
_VERSION = 1
_CRC_POSITION_IN_BLOCK = BLOCK_BYTES - _CRC.size
_MAX_BLOCK_COUNT = MAX_KEY_FILTER_BYTES // BLOCK_BYTES
_KEYS_PER_BLOCK = BLOCK_BITS * 693 // (PROBE_COUNT * 1000)
"""The bits of so many keys fill half of a block, where a filter is most precise for its size: ln 2 is 0.693."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedSegment:
    """Identifies a segment that no longer grows. A filter is valid only for the segment that it was built for."""

    base_offset: int
    next_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFilterHeader:
    """`block_count` is a power of two, or 0 if no record has a key."""

    segment: ClosedSegment
    null_key_count: int
    block_count: int

    @property
    def file_bytes(self) -> int:
        """Size of the whole file."""
        return KEY_FILTER_HEADER_BYTES + self.block_count * BLOCK_BYTES

    def encode(self) -> bytes:
        packed = _HEADER.pack(
            _MAGIC,
            _VERSION,
            0,
            self.segment.base_offset,
            self.segment.next_offset,
            self.segment.size_bytes,
            self.null_key_count,
            0,
            0,
            0,
            self.block_count,
        )
        return packed + _CRC.pack(crc32c.crc32c(packed))


def decode_key_filter_header(data: bytes) -> KeyFilterHeader | None:
    """None if the bytes are no header of this version, or damaged."""
    packed, crc = data[: _HEADER.size], data[_HEADER.size : KEY_FILTER_HEADER_BYTES]
    if len(crc) < _CRC.size or packed[:4] != _MAGIC or _CRC.unpack(crc)[0] != crc32c.crc32c(packed):
        return None
    _, version, _, base_offset, next_offset, size_bytes, null_key_count, _, _, _, block_count = _HEADER.unpack(packed)
    if version != _VERSION or not _is_block_count(block_count):
        return None
    segment = ClosedSegment(base_offset=base_offset, next_offset=next_offset, size_bytes=size_bytes)
    return KeyFilterHeader(segment=segment, null_key_count=null_key_count, block_count=block_count)


def key_filter_blocks(file_bytes: int) -> int | None:
    """The number of blocks of a filter of this size; None if no filter has this size."""
    count, rest = divmod(file_bytes - KEY_FILTER_HEADER_BYTES, BLOCK_BYTES)
    return None if rest or not _is_block_count(count) else count


def block_position(key: bytes, block_count: int) -> int:
    """The position in the file of a key's block."""
    return KEY_FILTER_HEADER_BYTES + key_place(key, block_count)[0] * BLOCK_BYTES


def is_block_whole(block: bytes) -> bool:
    """Whether the block's CRC is valid."""
    return len(block) == BLOCK_BYTES and _CRC.unpack_from(block, _CRC_POSITION_IN_BLOCK)[0] == crc32c.crc32c(
        block[:_CRC_POSITION_IN_BLOCK]
    )


def block_denies(block: bytes, key: bytes, block_count: int) -> bool:
    """Whether the key's block excludes the key. A short or damaged block excludes nothing."""
    if not is_block_whole(block):
        return False
    return any(not block[place >> 3] >> (place & 7) & 1 for place in key_place(key, block_count)[1])


class KeyFilterBuilder:
    """Builds the bytes of a filter file from a segment's keys, column by column.

    It begins with room for one key per offset, up to a limit, and is folded to fit the added keys.
    """

    def __init__(self, segment: ClosedSegment, *, block_count: int | None = None, kernel: Kernel = KERNEL) -> None:
        self.segment = segment
        self._kernel = kernel
        count = _enough_blocks(segment.next_offset - segment.base_offset) if block_count is None else block_count
        self._blocks = bytearray(count * BLOCK_BYTES)
        self._null_key_count = 0
        self._has_keys = False

    def add(self, keys: Any) -> None:
        """An Arrow array of keys, binary or null."""
        # Imported here, where keys are added: a broker that decodes nothing does not need pyarrow.
        from broker_core.record.column_input import key_or_value_column

        self._null_key_count += keys.null_count
        if keys.null_count < len(keys):
            self._has_keys = True
            if self._blocks:
                self._kernel.mark_keys(len(keys), key_or_value_column("key", keys), self._blocks)

    def finish(self) -> bytes:
        """The whole file."""
        blocks = _folded(self._blocks) if self._has_keys else bytearray()
        header = KeyFilterHeader(
            segment=self.segment, null_key_count=self._null_key_count, block_count=len(blocks) // BLOCK_BYTES
        )
        for start in range(0, len(blocks), BLOCK_BYTES):
            crc_position = start + _CRC_POSITION_IN_BLOCK
            _CRC.pack_into(blocks, crc_position, crc32c.crc32c(memoryview(blocks)[start:crc_position]))
        return header.encode() + blocks

    def is_denied_by(self, stored: bytes) -> bool:
        """Whether `stored`, a whole file with as many blocks, misses a bit of a key that was added here, or the null
        keys."""
        header = decode_key_filter_header(stored)
        assert header is not None, "the caller has read this header"
        if (self._null_key_count and not header.null_key_count) or (self._has_keys and not header.block_count):
            return True
        # The CRCs in the stored blocks are where no key has a bit.
        found = int.from_bytes(stored[KEY_FILTER_HEADER_BYTES:], "little")
        return int.from_bytes(self._blocks, "little") & ~found != 0


def _is_block_count(count: int) -> bool:
    return 0 <= count <= _MAX_BLOCK_COUNT and count & (count - 1) == 0


def _enough_blocks(key_count: int) -> int:
    """A power of two, as many blocks as these keys need, or as a filter may have."""
    wanted = max(1, -(-key_count // _KEYS_PER_BLOCK))
    return min(1 << (wanted - 1).bit_length(), _MAX_BLOCK_COUNT)


def _folded(blocks: bytearray) -> bytearray:
    """ORs the upper half into the lower one, while no more than half of the bits are set afterwards."""
    while len(blocks) > BLOCK_BYTES:
        half = len(blocks) // 2
        both = int.from_bytes(blocks[:half], "little") | int.from_bytes(blocks[half:], "little")
        if both.bit_count() * 2 > half // BLOCK_BYTES * BLOCK_BITS:
            break
        blocks = bytearray(both.to_bytes(half, "little"))
    return blocks
