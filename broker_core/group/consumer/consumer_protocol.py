"""Subscriptions and assignments of classic consumers: Kafka's ConsumerProtocol, embedded in JoinGroup and SyncGroup.

    subscription   int16 version, [string topic], bytes user data; 1: [string topic, [int32 partition]] owned;
                   2: int32 generation; 3: string rack
    assignment     int16 version, [string topic, [int32 partition]], bytes user data

Newer versions only add fields at the end, so they are read as version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kio.serial.readers import read_int32, read_nullable_legacy_bytes, read_nullable_legacy_string

from broker_core.coordinator.record_fields import FieldReader, array_count_bytes, string_bytes

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_NO_USER_DATA: Final = _INT32.pack(-1)
_NEWEST_VERSION: Final = 3
_OWNED_VERSION: Final = 1
_GENERATION_VERSION: Final = 2
_RACK_VERSION: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """`owned` by topic name."""

    version: int
    topics: frozenset[str]
    owned: Mapping[str, frozenset[int]] = field(default_factory=dict)
    rack_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicAssignment:
    """`user_data`: opaque bytes of the client's own assignor."""

    partitions: Mapping[str, frozenset[int]]
    user_data: bytes = b""


def decode_subscription(content: bytes) -> Subscription:
    """Raises CorruptBatchError."""
    reader = FieldReader(content, "subscription of a group member")
    version = reader.take_version()
    if version < 0:
        raise reader.corrupt(f"has version {version}")
    count = reader.take_count(is_flexible=False, item_bytes=_INT16.size) or 0
    topics = frozenset([reader.take_string(is_flexible=False) for _ in range(count)])
    reader.take(read_nullable_legacy_bytes)
    owned = _take_partitions(reader) if version >= _OWNED_VERSION else {}
    if version >= _GENERATION_VERSION:
        reader.take(read_int32)
    rack_id = reader.take(read_nullable_legacy_string) if version >= _RACK_VERSION else None
    return Subscription(version=version, topics=topics, owned=owned, rack_id=rack_id or None)


def decode_assignment(content: bytes) -> ClassicAssignment:
    """Empty bytes are an empty assignment: the member has none yet. Raises CorruptBatchError."""
    if not content:
        return ClassicAssignment(partitions={})
    reader = FieldReader(content, "assignment of a group member")
    version = reader.take_version()
    if version < 0:
        raise reader.corrupt(f"has version {version}")
    partitions = _take_partitions(reader)
    return ClassicAssignment(partitions=partitions, user_data=reader.take(read_nullable_legacy_bytes) or b"")


def encode_assignment(partitions: Mapping[str, frozenset[int]], subscription: bytes) -> bytes:
    """In the version of the member's subscription. Raises CorruptBatchError if that cannot be read."""
    version = FieldReader(subscription, "subscription of a group member").take_version()
    parts = [
        _INT16.pack(max(0, min(version, _NEWEST_VERSION))),
        array_count_bytes(len(partitions), is_flexible=False),
    ]
    for topic, numbers in sorted(partitions.items()):
        count = array_count_bytes(len(numbers), is_flexible=False)
        parts += (string_bytes(topic), count, *map(_INT32.pack, sorted(numbers)))
    return b"".join((*parts, _NO_USER_DATA))


def _take_partitions(reader: FieldReader) -> dict[str, frozenset[int]]:
    found: dict[str, frozenset[int]] = {}
    for _ in range(reader.take_count(is_flexible=False, item_bytes=_INT16.size + _INT32.size) or 0):
        topic = reader.take_string(is_flexible=False)
        count = reader.take_count(is_flexible=False, item_bytes=_INT32.size) or 0
        found[topic] = frozenset([reader.take(read_int32) for _ in range(count)])
    return found
