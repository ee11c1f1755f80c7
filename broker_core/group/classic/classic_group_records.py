"""The value that `__consumer_offsets` keeps of a classic group. Format: Kafka 4.3's GroupMetadataValue.

    int16 version
    string protocol type, int32 generation, string? protocol, string? leader
    int64 current state timestamp                                     from version 2
    array of members
        string member id, string? group instance id (from version 3), string client id, string client host,
        int32 rebalance timeout ms (from version 1), int32 session timeout ms, bytes subscription, bytes assignment
                                                                      version 4 is flexible

All versions are read; version 3 is written, as Kafka 4.3 does. Bytes behind a known version's fields are ignored, as
Kafka ignores them. A group of no members is Empty, any other one is Stable: a rebalance under way is not stored.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from kio.serial.readers import (
    read_compact_string_as_bytes,
    read_compact_string_nullable,
    read_int32,
    read_int64,
    read_legacy_bytes,
    read_nullable_legacy_string,
)

from broker_core.coordinator.record_fields import FieldReader, array_count_bytes, string_bytes
from broker_core.model.exceptions import UnsupportedFormatError

WRITTEN_VERSION: Final = 3
NEWEST_VERSION: Final = 4

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_NULL: Final = _INT16.pack(-1)

_REBALANCE_TIMEOUT_VERSION: Final = 1
_STATE_TIMESTAMP_VERSION: Final = 2
_INSTANCE_ID_VERSION: Final = 3
_FLEXIBLE_VERSION: Final = 4
_MEMBER_BYTES: Final = 7
"""The smallest encoded member over all versions: six lengths of one byte each, and tagged fields."""

NO_STATE_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    """`subscription` is the member's metadata for the chosen protocol."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    """`state_timestamp_ms`: when the group came to this state, -1 if a version did not say. No `protocol_type`: ""."""

    protocol_type: str = ""
    generation_id: int = 0
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int = NO_STATE_TIMESTAMP
    members: tuple[StoredMember, ...] = ()


def encode_stored_group(group: StoredGroup) -> bytes:
    """The value of the record. Texts must fit a plain string: `record_fields.fits_string`."""
    parts = [
        _INT16.pack(WRITTEN_VERSION),
        string_bytes(group.protocol_type),
        _INT32.pack(group.generation_id),
        _nullable(group.protocol),
        _nullable(group.leader),
        _INT64.pack(group.state_timestamp_ms),
        array_count_bytes(len(group.members), is_flexible=False),
    ]
    for member in group.members:
        parts += (
            string_bytes(member.member_id),
            _nullable(member.group_instance_id),
            string_bytes(member.client_id),
            string_bytes(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _INT32.pack(len(member.subscription)),
            member.subscription,
            _INT32.pack(len(member.assignment)),
            member.assignment,
        )
    return b"".join(parts)


def decode_stored_group(group_id: str, value: bytes) -> StoredGroup:
    """Raises UnsupportedFormatError for an unknown version, CorruptBatchError when the fields do not fit the bytes."""
    what = f"members of group {group_id!r}"
    reader = FieldReader(value, what)
    version = reader.take_version()
    if not 0 <= version <= NEWEST_VERSION:
        raise UnsupportedFormatError(
            f"{what} have version {version}, supported are 0 to {NEWEST_VERSION}: a newer version wrote them"
        )
    is_flexible = version >= _FLEXIBLE_VERSION
    protocol_type = reader.take_string(is_flexible=is_flexible)
    generation_id = reader.take(read_int32)
    protocol, leader = (_take_nullable(reader, is_flexible) for _ in range(2))
    since_ms = reader.take(read_int64) if version >= _STATE_TIMESTAMP_VERSION else NO_STATE_TIMESTAMP
    count = reader.take_count(is_flexible=is_flexible, item_bytes=_MEMBER_BYTES)
    members = tuple(_take_member(reader, version) for _ in range(count or 0))
    if is_flexible:
        reader.take_tagged_fields()
    return StoredGroup(
        protocol_type=protocol_type,
        generation_id=generation_id,
        protocol=protocol,
        leader=leader,
        state_timestamp_ms=since_ms,
        members=members,
    )


def _take_member(reader: FieldReader, version: int) -> StoredMember:
    is_flexible = version >= _FLEXIBLE_VERSION
    member_id = reader.take_string(is_flexible=is_flexible)
    instance_id = _take_nullable(reader, is_flexible) if version >= _INSTANCE_ID_VERSION else None
    client_id, client_host = (reader.take_string(is_flexible=is_flexible) for _ in range(2))
    rebalance_timeout_ms = reader.take(read_int32) if version >= _REBALANCE_TIMEOUT_VERSION else -1
    session_timeout_ms = reader.take(read_int32)
    subscription, assignment = (_take_bytes(reader, is_flexible) for _ in range(2))
    if is_flexible:
        reader.take_tagged_fields()
    return StoredMember(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=subscription,
        assignment=assignment,
    )


def _take_bytes(reader: FieldReader, is_flexible: bool) -> bytes:
    return reader.take(read_compact_string_as_bytes if is_flexible else read_legacy_bytes)


def _take_nullable(reader: FieldReader, is_flexible: bool) -> str | None:
    return reader.take(read_compact_string_nullable if is_flexible else read_nullable_legacy_string)


def _nullable(text: str | None) -> bytes:
    return _NULL if text is None else string_bytes(text)
