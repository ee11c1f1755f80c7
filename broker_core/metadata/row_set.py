"""A set of row numbers as a bitmap: an index over 100,000 partitions takes 12 KB for each broker."""

from __future__ import annotations

from collections.abc import Iterator

_WORD_BYTES = 8


class RowSet:
    """Grows to the highest row that was ever added. Iterates in ascending order."""

    __slots__ = ("_bits", "_count")

    def __init__(self) -> None:
        self._bits = bytearray()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, row: int) -> bool:
        at = row >> 3
        return at < len(self._bits) and bool(self._bits[at] & (1 << (row & 7)))

    def __iter__(self) -> Iterator[int]:
        bits = bytes(self._bits)
        for start in range(0, len(bits), _WORD_BYTES):
            word = int.from_bytes(bits[start : start + _WORD_BYTES], "little")
            while word:
                lowest = word & -word
                yield start * 8 + lowest.bit_length() - 1
                word ^= lowest

    def add(self, row: int) -> None:
        at, bit = row >> 3, 1 << (row & 7)
        if at >= len(self._bits):
            needed = max(at + 1, len(self._bits) * 2)
            self._bits.extend(bytes(-(-needed // _WORD_BYTES) * _WORD_BYTES - len(self._bits)))
        if not self._bits[at] & bit:
            self._bits[at] |= bit
            self._count += 1

    def discard(self, row: int) -> None:
        at, bit = row >> 3, 1 << (row & 7)
        if at < len(self._bits) and self._bits[at] & bit:
            self._bits[at] &= ~bit
            self._count -= 1

    def copy(self) -> RowSet:
        other = RowSet()
        other._bits, other._count = self._bits[:], self._count
        return other
