"""Chooses the partition of a record like Kafka's own producer.

A key hashes by murmur2 (Java's, signed, sign bit dropped) modulo the partition count; an empty key is a key. Records
without a key stay in one partition for a batch, then change to the next one.
"""

from __future__ import annotations

from typing_extensions import Buffer

from broker_core.record.active_kernel import KERNEL


def murmur2(key: Buffer) -> int:
    """Kafka's 32-bit hash of the bytes, as Java's signed int."""
    return KERNEL.murmur2(key)


def partition_for_key(key: Buffer, partition_count: int) -> int:
    """The partition of a record with this key. `partition_count` must be positive."""
    return (KERNEL.murmur2(key) & 0x7FFFFFFF) % partition_count
