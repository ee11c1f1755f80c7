"""Records of KIP-848 consumer groups in `__consumer_offsets` <-> values. Formats: Kafka 4.3's ConsumerGroup* schemas.

    key     int16 type, string group; types 5, 7, 8 then the string member id, type 16 the string regular expression
    value   int16 version 0, then flexible fields (arrays are compact, tagged fields close every struct)
              3   GROUP              int32 group epoch; tag 0: int64 hash of the metadata of the subscribed topics (4.1)
              4   TOPICS             what 4.0 stored instead of the hash: only tombstones of it are written
              5   MEMBER             identity and subscription; tag 0: classic metadata, if it has any
              6   TARGET             int32 epoch of the target assignment; tag 0: int64 when it was computed (4.3)
              7   TARGET_OF_MEMBER   [topic id, [int32 partition]]
              8   CURRENT_OF_MEMBER  int32 epoch, int32 epoch before, int8 state, then two, assigned and to be revoked:
                                     [topic id, [int32 partition], tag 0: [int32 epoch since which it is the member's]]
              16  REGEX              [topic], int64 version of the topics, int64 time ms

A null value is a tombstone for the key. Bytes behind the known fields are ignored, as are unknown tagged fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

from kio.serial.readers import (
    read_compact_string_as_bytes,
    read_compact_string_nullable,
    read_int8,
    read_int32,
    read_int64,
    read_unsigned_varint,
)

from broker_core.coordinator.record_fields import (
    FieldReader,
    array_count_bytes,
    compact_string_bytes,
    string_bytes,
    tagged_fields_bytes,
    unsigned_varint,
)
from broker_core.group.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupRecord,
    ConsumerRecordType,
    ConsumerRecordValue,
    CurrentOfMember,
    GroupEpoch,
    MemberMetadata,
    PartitionEpochs,
    ResolvedRegex,
    StoredTopics,
    TargetEpoch,
    TargetOfMember,
)
from broker_core.model.exceptions import UnsupportedFormatError
from broker_core.record.batch_reader import Record

VALUE_VERSION: Final = 0

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_UUID: Final = struct.Struct(">16s")
_TAG: Final = 0
_NO_TAGS: Final = tagged_fields_bytes({})
_TOPIC_BYTES: Final = 18

_TYPES_WITH_ITEM: Final = frozenset(
    {
        ConsumerRecordType.MEMBER,
        ConsumerRecordType.TARGET_OF_MEMBER,
        ConsumerRecordType.CURRENT_OF_MEMBER,
        ConsumerRecordType.REGEX,
    }
)


def encode_consumer_group_record(record: ConsumerGroupRecord, *, timestamp_ms: int) -> Record:
    """The record of the log. The caller has made sure that key strings fit, by `record_fields.fits_string`."""
    key = _INT16.pack(record.type) + string_bytes(record.group_id)
    if record.type in _TYPES_WITH_ITEM:
        key += string_bytes(record.item)
    value = None if record.value is None else _INT16.pack(VALUE_VERSION) + _encode_value(record.value)
    return Record(key=key, value=value, timestamp_ms=timestamp_ms)


def decode_consumer_group_record(key: bytes, value: bytes | None) -> ConsumerGroupRecord | None:
    """The record with this key and value; None for a key of another type.

    Raises UnsupportedFormatError for a value in an unknown version, CorruptBatchError when the fields do not fit the
    bytes.
    """
    reader = FieldReader(key, "key of a consumer group's record")
    number = reader.take_version()
    if number not in _READERS:
        return None
    kind = ConsumerRecordType(number)
    group_id = reader.take_string(is_flexible=False)
    item = reader.take_string(is_flexible=False) if kind in _TYPES_WITH_ITEM else ""
    if value is None:
        return ConsumerGroupRecord(type=kind, group_id=group_id, item=item)
    what = f"{kind.name} record of consumer group {group_id}"
    fields = FieldReader(value, what)
    version = fields.take_version()
    if version != VALUE_VERSION:
        raise UnsupportedFormatError(
            f"{what} has version {version}, supported is {VALUE_VERSION}: a newer version wrote it"
        )
    return ConsumerGroupRecord(type=kind, group_id=group_id, item=item, value=_READERS[kind](fields))


# -- written --


def _encode_value(value: ConsumerRecordValue) -> bytes:
    match value:
        case GroupEpoch():
            return _INT32.pack(value.epoch) + _tagged_int64(value.metadata_hash)
        case StoredTopics():
            return value.content
        case MemberMetadata():
            return _encode_member(value)
        case TargetEpoch():
            return _INT32.pack(value.epoch) + _tagged_int64(value.computed_ms)
        case TargetOfMember():
            topics = [
                topic_id.bytes + _int32_array(sorted(partitions)) + _NO_TAGS
                for topic_id, partitions in value.partitions.items()
            ]
            return array_count_bytes(len(topics), is_flexible=True) + b"".join(topics) + _NO_TAGS
        case CurrentOfMember():
            head = _INT32.pack(value.epoch) + _INT32.pack(value.previous_epoch) + _INT8.pack(value.state)
            return head + _encode_epochs(value.assigned) + _encode_epochs(value.pending_revocation) + _NO_TAGS
        case ResolvedRegex():
            numbers = _INT64.pack(value.version) + _INT64.pack(value.time_ms)
            return _string_array(value.topics) + numbers + _NO_TAGS


def _encode_member(value: MemberMetadata) -> bytes:
    # Kafka writes this field for a member without classic metadata too: one zero byte; a struct begins with a one.
    classic = b"\x00" if value.classic is None else b"\x01" + _encode_classic(value.classic)
    return b"".join(
        (
            _nullable(value.instance_id),
            _nullable(value.rack_id),
            compact_string_bytes(value.client_id),
            compact_string_bytes(value.client_host),
            _string_array(value.topic_names),
            _nullable(value.topic_regex),
            _INT32.pack(value.rebalance_timeout_ms),
            _nullable(value.server_assignor),
            tagged_fields_bytes({_TAG: classic}),
        )
    )


def _encode_classic(classic: ClassicMemberMetadata) -> bytes:
    protocols = [
        compact_string_bytes(each.name) + _compact_bytes(each.metadata) + _NO_TAGS for each in classic.protocols
    ]
    count = array_count_bytes(len(protocols), is_flexible=True)
    return _INT32.pack(classic.session_timeout_ms) + count + b"".join(protocols) + _NO_TAGS


def _encode_epochs(epochs: PartitionEpochs) -> bytes:
    topics = []
    for topic_id, by_partition in epochs.items():
        ordered = sorted(by_partition)
        since = _int32_array([by_partition[partition] for partition in ordered])
        topics.append(topic_id.bytes + _int32_array(ordered) + tagged_fields_bytes({_TAG: since}))
    return array_count_bytes(len(topics), is_flexible=True) + b"".join(topics)


def _tagged_int64(number: int) -> bytes:
    return tagged_fields_bytes({_TAG: _INT64.pack(number)} if number else {})


def _nullable(text: str | None) -> bytes:
    return unsigned_varint(0) if text is None else compact_string_bytes(text)


def _compact_bytes(content: bytes) -> bytes:
    return unsigned_varint(len(content) + 1) + content


def _string_array(texts: frozenset[str]) -> bytes:
    return array_count_bytes(len(texts), is_flexible=True) + b"".join(map(compact_string_bytes, sorted(texts)))


def _int32_array(numbers: list[int]) -> bytes:
    return array_count_bytes(len(numbers), is_flexible=True) + b"".join(map(_INT32.pack, numbers))


# -- read --


def _read_group(reader: FieldReader) -> GroupEpoch:
    epoch = reader.take(read_int32)
    return GroupEpoch(epoch=epoch, metadata_hash=_read_tagged_int64(reader))


def _read_topics(reader: FieldReader) -> StoredTopics:
    return StoredTopics(content=reader.rest())


def _read_member(reader: FieldReader) -> MemberMetadata:
    instance_id, rack_id = (reader.take(read_compact_string_nullable) for _ in range(2))
    client_id, client_host = (reader.take_string(is_flexible=True) for _ in range(2))
    names = _read_strings(reader)
    regex = reader.take(read_compact_string_nullable)
    rebalance_timeout_ms = reader.take(read_int32)
    assignor = reader.take(read_compact_string_nullable)
    classic = reader.take_tagged_fields().get(_TAG)
    return MemberMetadata(
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        topic_names=names,
        topic_regex=regex,
        rebalance_timeout_ms=rebalance_timeout_ms,
        server_assignor=assignor,
        classic=None if classic is None else _read_classic(FieldReader(classic, "classic side of a group member")),
    )


def _read_classic(reader: FieldReader) -> ClassicMemberMetadata | None:
    if not reader.take(read_unsigned_varint):
        return None
    session_timeout_ms = reader.take(read_int32)
    protocols = []
    for _ in range(reader.take_count(is_flexible=True, item_bytes=3) or 0):
        name = reader.take_string(is_flexible=True)
        protocols.append(ClassicProtocol(name=name, metadata=reader.take(read_compact_string_as_bytes)))
        reader.take_tagged_fields()
    reader.take_tagged_fields()
    return ClassicMemberMetadata(session_timeout_ms=session_timeout_ms, protocols=tuple(protocols))


def _read_target(reader: FieldReader) -> TargetEpoch:
    epoch = reader.take(read_int32)
    return TargetEpoch(epoch=epoch, computed_ms=_read_tagged_int64(reader))


def _read_target_of_member(reader: FieldReader) -> TargetOfMember:
    found: dict[UUID, frozenset[int]] = {}
    for _ in range(reader.take_count(is_flexible=True, item_bytes=_TOPIC_BYTES) or 0):
        topic_id = UUID(bytes=reader.take_fixed(_UUID)[0])
        found[topic_id] = frozenset(_read_int32s(reader))
        reader.take_tagged_fields()
    reader.take_tagged_fields()
    return TargetOfMember(partitions=found)


def _read_current(reader: FieldReader) -> CurrentOfMember:
    epoch, previous_epoch = (reader.take(read_int32) for _ in range(2))
    state = reader.take(read_int8)
    assigned, pending = (_read_epochs(reader, epoch) for _ in range(2))
    reader.take_tagged_fields()
    return CurrentOfMember(
        epoch=epoch, previous_epoch=previous_epoch, state=state, assigned=assigned, pending_revocation=pending
    )


def _read_epochs(reader: FieldReader, member_epoch: int) -> dict[UUID, dict[int, int]]:
    """Records from before Kafka 4.3 have no epochs: then the member's epoch, and 0 for a member on leave."""
    found: dict[UUID, dict[int, int]] = {}
    for _ in range(reader.take_count(is_flexible=True, item_bytes=_TOPIC_BYTES) or 0):
        topic_id = UUID(bytes=reader.take_fixed(_UUID)[0])
        partitions = _read_int32s(reader)
        since = reader.take_tagged_fields().get(_TAG)
        epochs = _read_int32s(FieldReader(since, "assignment epochs")) if since else []
        if len(epochs) != len(partitions):
            epochs = [max(member_epoch, 0)] * len(partitions)
        found[topic_id] = dict(zip(partitions, epochs, strict=True))
    return found


def _read_regex(reader: FieldReader) -> ResolvedRegex:
    topics = _read_strings(reader)
    version, time_ms = (reader.take(read_int64) for _ in range(2))
    reader.take_tagged_fields()
    return ResolvedRegex(topics=topics, version=version, time_ms=time_ms)


def _read_tagged_int64(reader: FieldReader) -> int:
    content = reader.take_tagged_fields().get(_TAG)
    return 0 if content is None else FieldReader(content, "a number of a group record").take(read_int64)


def _read_strings(reader: FieldReader) -> frozenset[str]:
    count = reader.take_count(is_flexible=True, item_bytes=1) or 0
    return frozenset([reader.take_string(is_flexible=True) for _ in range(count)])


def _read_int32s(reader: FieldReader) -> list[int]:
    count = reader.take_count(is_flexible=True, item_bytes=_INT32.size) or 0
    return [reader.take(read_int32) for _ in range(count)]


_READERS: Final[Mapping[int, Callable[[FieldReader], ConsumerRecordValue]]] = {
    ConsumerRecordType.GROUP: _read_group,
    ConsumerRecordType.TOPICS: _read_topics,
    ConsumerRecordType.MEMBER: _read_member,
    ConsumerRecordType.TARGET: _read_target,
    ConsumerRecordType.TARGET_OF_MEMBER: _read_target_of_member,
    ConsumerRecordType.CURRENT_OF_MEMBER: _read_current,
    ConsumerRecordType.REGEX: _read_regex,
}
