"""The positions of a key's bits in a key filter: a Bloom filter of small blocks, which can be read one at a time.

    block   4096 bytes: 32736 bits, and the CRC-32C of their bytes in the last four
    key     MurmurHash3 x64 128, seed 0: the first half chooses the block (their number is a power of two), the second
            half the seven bits in it, by double hashing

So a look-up of a key reads one block, and a filter that turned out too large is folded by merging its upper half into
its lower one. With seven bits per key and blocks at most half full, the false positive rate is about one percent.
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
