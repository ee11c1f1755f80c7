"""Newest offset per key, in a table of fixed size, for one pass of compaction.

A slot is 24 bytes: the key's 128-bit keyed BLAKE2b digest and the offset. The digest's key is random and never leaves
the process, so clients cannot choose two colliding keys; by chance two of 2**40 keys collide once in 2**49 passes.
"""

from __future__ import annotations

import hashlib
import struct

_DIGEST_BYTES = 16
_SLOT_BYTES = _DIGEST_BYTES + 8
_EMPTY = bytes(_DIGEST_BYTES)
_OFFSET = struct.Struct(">q")


class OffsetMap:
    """Open addressing over one bytearray; `memory_bytes` and `load_factor` limit the number of keys.

    `digest_key`: 16 to 64 random bytes. An empty slot has a digest of zeros, which only one key in 2**128 has.
    """

    def __init__(self, *, memory_bytes: int, digest_key: bytes, load_factor: float = 0.9) -> None:
        self._slot_count = memory_bytes // _SLOT_BYTES
        self.capacity = int(self._slot_count * load_factor)
        """Keys that fit."""
        if not 1 <= self.capacity < self._slot_count:
            raise ValueError(f"{memory_bytes} bytes are too few: a slot needs {_SLOT_BYTES}")
        if not 16 <= len(digest_key) <= hashlib.blake2b.MAX_KEY_SIZE:
            raise ValueError("the digest key must be 16 to 64 random bytes")
        self.latest_offset = -1
        """All records of the indexed range up to here are in the map; -1 before the first."""
        self._table = bytearray(self._slot_count * _SLOT_BYTES)
        self._hasher = hashlib.blake2b(digest_size=_DIGEST_BYTES, key=digest_key)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, key: bytes | memoryview, offset: int) -> bool:
        """The key's newest offset. False: the table is full and the key is new; nothing changed."""
        digest = self._digest(key)
        position = self._slot_of(digest)
        if self._table[position : position + _DIGEST_BYTES] != digest:
            if self._size >= self.capacity:
                return False
            self._table[position : position + _DIGEST_BYTES] = digest
            self._size += 1
        _OFFSET.pack_into(self._table, position + _DIGEST_BYTES, offset)
        return True

    def get(self, key: bytes | memoryview) -> int:
        """-1 for an unknown key."""
        digest = self._digest(key)
        position = self._slot_of(digest)
        if self._table[position : position + _DIGEST_BYTES] != digest:
            return -1
        offset: int = _OFFSET.unpack_from(self._table, position + _DIGEST_BYTES)[0]
        return offset

    def _digest(self, key: bytes | memoryview) -> bytes:
        hasher = self._hasher.copy()
        hasher.update(key)
        return hasher.digest()

    def _slot_of(self, digest: bytes) -> int:
        """Byte position of the digest's slot, or of the empty slot where it belongs; one always exists."""
        slot = int.from_bytes(digest[:8], "big") % self._slot_count
        table = self._table
        while True:
            position = slot * _SLOT_BYTES
            found = table[position : position + _DIGEST_BYTES]
            if found in (digest, _EMPTY):
                return position
            slot = slot + 1 if slot + 1 < self._slot_count else 0
