"""Which partition of an internal topic has the coordinator of a key, a group or a transactional id: as Kafka has it."""

from __future__ import annotations

from typing import Final

_HASH_MASK: Final = 0x7FFF_FFFF


def key_partition(key: str, partition_count: int) -> int:
    """Its number. A topic that is extended later gives another one."""
    return (java_hash(key) & _HASH_MASK) % partition_count


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 units, as a signed 32-bit number."""
    number = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for place in range(0, len(encoded), 2):
        number = (31 * number + int.from_bytes(encoded[place : place + 2], "big")) & 0xFFFF_FFFF
    return number - (1 << 32) if number >= 1 << 31 else number
