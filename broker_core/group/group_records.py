"""Records of `__consumer_offsets` <-> values. Formats: Kafka 4.3's OffsetCommitKey, OffsetCommitValue and others.

    key     int16 type, then by type
              0, 1   string group, string topic, int32 partition     a committed offset (0: written before Kafka 0.9)
              2      string group                                    the members of a classic group
              3 …    members, assignments and topologies of newer group protocols
    value   of a committed offset: int16 version
              0      int64 offset, string metadata, int64 commit time ms
              1      and int64 expire time ms
              2      as 0
              3      int32 leader epoch behind the offset
              4      as 3, flexible; tagged field 0 is the topic's id, left out when it is not known

A null value is a tombstone. Type 1 and version 4 are written, as in Kafka 4.3; all are read. Group members are kept as
they are, other types are skipped: neither concerns offsets. Bytes behind a known version's fields are
ignored, as Kafka ignores them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kio.serial.readers import read_int32, read_int64

from broker_core.coordinator.record_fields import (
    FieldReader,
    compact_string_bytes,
    string_bytes,
    tagged_fields_bytes,
    uuid_of,
)
from broker_core.model.exceptions import UnsupportedFormatError
from broker_core.model.identifiers import NO_LEADER_EPOCH, TopicPartition
from broker_core.record.batch_reader import Record

LEGACY_OFFSET_COMMIT_TYPE: Final = 0
OFFSET_COMMIT_TYPE: Final = 1
GROUP_METADATA_TYPE: Final = 2
VALUE_VERSION: Final = 4

_EXPIRE_TIME_VERSION: Final = 1
_LEADER_EPOCH_VERSION: Final = 3
_FLEXIBLE_VERSION: Final = 4
_TOPIC_ID_TAG: Final = 0

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">hqi")
_UUID: Final = struct.Struct(">16s")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue:
    """A committed offset. `topic_id` None: valid for any topic with the name."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_time_ms: int
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRecord:
    """`value` None: the offset is deleted."""

    group_id: str
    partition: TopicPartition
    value: OffsetCommitValue | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataRecord:
    """The members of a classic group, as stored; None: the group is deleted."""

    group_id: str
    value: bytes | None = None


GroupRecord = OffsetCommitRecord | GroupMetadataRecord


def encode_group_record(record: GroupRecord, *, timestamp_ms: int) -> Record:
    """The record of the log."""
    if isinstance(record, GroupMetadataRecord):
        key = _INT16.pack(GROUP_METADATA_TYPE) + string_bytes(record.group_id)
        return Record(key=key, value=record.value, timestamp_ms=timestamp_ms)
    key = b"".join(
        (
            _INT16.pack(OFFSET_COMMIT_TYPE),
            string_bytes(record.group_id),
            string_bytes(record.partition.topic),
            _INT32.pack(record.partition.partition),
        )
    )
    value = None if record.value is None else _encode_value(record.value)
    return Record(key=key, value=value, timestamp_ms=timestamp_ms)


def decode_group_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """The record with this key and value; None for a key of another type.

    Raises UnsupportedFormatError for an offset in an unknown version, CorruptBatchError when the fields do not fit the
    bytes.
    """
    reader = FieldReader(key, "key of a group record")
    key_type = reader.take_version()
    if key_type == GROUP_METADATA_TYPE:
        return GroupMetadataRecord(group_id=reader.take_string(is_flexible=False), value=value)
    if key_type not in (LEGACY_OFFSET_COMMIT_TYPE, OFFSET_COMMIT_TYPE):
        return None
    group_id, topic = (reader.take_string(is_flexible=False) for _ in range(2))
    partition = TopicPartition(topic, reader.take(read_int32))
    what = f"committed offset of group {group_id} in {partition}"
    decoded = None if value is None else _decode_value(FieldReader(value, what), what)
    return OffsetCommitRecord(group_id=group_id, partition=partition, value=decoded)


def _encode_value(value: OffsetCommitValue) -> bytes:
    tagged = {} if value.topic_id is None else {_TOPIC_ID_TAG: value.topic_id.bytes}
    return b"".join(
        (
            _HEAD.pack(VALUE_VERSION, value.offset, value.leader_epoch),
            compact_string_bytes(value.metadata),
            _INT64.pack(value.commit_time_ms),
            tagged_fields_bytes(tagged),
        )
    )


def _decode_value(reader: FieldReader, what: str) -> OffsetCommitValue:
    version = reader.take_version()
    if not 0 <= version <= VALUE_VERSION:
        raise UnsupportedFormatError(
            f"{what} has version {version}, supported are 0 to {VALUE_VERSION}: a newer version wrote it"
        )
    is_flexible = version >= _FLEXIBLE_VERSION
    offset = reader.take(read_int64)
    leader_epoch = reader.take(read_int32) if version >= _LEADER_EPOCH_VERSION else NO_LEADER_EPOCH
    metadata = reader.take_string(is_flexible=is_flexible)
    commit_time_ms = reader.take(read_int64)
    if version == _EXPIRE_TIME_VERSION:
        reader.take(read_int64)
    topic_id = reader.take_tagged_fields().get(_TOPIC_ID_TAG) if is_flexible else None
    return OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_time_ms=commit_time_ms,
        topic_id=None if topic_id is None else uuid_of(FieldReader(topic_id, what).take_fixed(_UUID)[0]),
    )
