"""Where a key's bits stand in a key filter: a Bloom filter in blocks, each small enough to be read and checked alone.

    block   4096 bytes: 32736 bits, and the CRC-32C of their bytes in the last four
    key     MurmurHash3 x64 128, seed 0: the first half chooses the block (their number is a power of two), the second
            half the seven bits in it, by double hashing

So to ask for a key costs one read of one block, and a filter that turned out too large is folded by laying its upper
half over its lower one. Seven bits a key and blocks at most half full give about one wrong yes in a hundred.
"""

from __future__ import annotations

from typing import Final

import mmh3

BLOCK_BYTES: Final = 4096
BLOCK_BITS: Final = (BLOCK_BYTES - 4) * 8
PROBE_COUNT: Final = 7

_LOW = 0xFFFFFFFF


def key_place(key: bytes | memoryview, block_count: int) -> tuple[int, tuple[int, ...]]:
    """(number of the block, the bits in it) of a key among `block_count` blocks."""
    first, second = mmh3.hash64(bytes(key), 0, True, False)
    start, step = second & _LOW, second >> 32 | 1
    return first & (block_count - 1), tuple((start + step * n & _LOW) % BLOCK_BITS for n in range(PROBE_COUNT))
