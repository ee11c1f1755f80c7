"""Metadata records <-> the values of `__cluster_metadata`.

    unsigned varint   frame version, 1
    unsigned varint   record type, `api_key`
    unsigned varint   version of the record
    fields            in Kafka's flexible encoding: compact strings and arrays, tagged fields last

Tagged fields of a known type are skipped when read; the records written here leave every tagged field at its default,
which Kafka writes as none at all.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Final, TypeVar
from uuid import UUID

from kio.serial.readers import (
    read_compact_string,
    read_compact_string_as_bytes,
    read_compact_string_nullable,
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    read_unsigned_varint,
    read_uuid,
)
from kio.serial.writers import (
    write_compact_array_length,
    write_compact_string,
    write_empty_tagged_fields,
    write_int8,
    write_int16,
    write_int32,
    write_int64,
    write_nullable_compact_string,
    write_unsigned_varint,
    write_uuid,
)

from broker_core.coordinator.record_fields import FieldReader
from broker_core.metadata.metadata_records import (
    AccessControlEntryRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    MetadataTransactionRecord,
    OtherRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from broker_core.model.exceptions import UnsupportedFormatError

FRAME_VERSION: Final = 1

_INT32_BYTES = 4
_UUID_BYTES = 16
_T = TypeVar("_T")


def encode_metadata_record(record: MetadataRecord) -> bytes:
    """The record's value in the log."""
    out = io.BytesIO()
    put: Any = out
    for number in (FRAME_VERSION, record.api_key, record.version):
        write_unsigned_varint(put, number)  # type: ignore[arg-type]
    if isinstance(record, OtherRecord):
        out.write(record.body)
        return out.getvalue()
    _write_fields(put, record)
    write_empty_tagged_fields(put)
    return out.getvalue()


def decode_metadata_record(value: bytes | memoryview) -> MetadataRecord:
    """The record in a value of the log.

    Raises UnsupportedFormatError for a frame version that is not 1 or a known type in an unknown version, and
    CorruptBatchError when the fields do not fit the bytes. Bytes after a known version's fields are its tagged fields.
    """
    body = FieldReader(value, "metadata record")
    frame_version = body.take(read_unsigned_varint)
    if frame_version != FRAME_VERSION:
        raise UnsupportedFormatError(f"metadata record in frame version {frame_version}, only {FRAME_VERSION} is known")
    api_key, version = body.take(read_unsigned_varint), body.take(read_unsigned_varint)
    reader = _READERS.get(api_key)
    if reader is None:
        return OtherRecord(api_key=api_key, version=version, body=body.rest())
    highest, read_fields = reader
    if version > highest:
        raise UnsupportedFormatError(
            f"metadata record type {api_key} in version {version}, known are 0 to {highest}: written by a newer version"
        )
    return read_fields(body, version)


def _write_fields(put: Any, record: MetadataRecord) -> None:
    match record:
        case TopicRecord():
            write_compact_string(put, record.name)
            write_uuid(put, record.topic_id)
        case PartitionRecord():
            write_int32(put, record.partition_id)  # type: ignore[arg-type]
            write_uuid(put, record.topic_id)
            for broker_ids in (record.replicas, record.isr, (), ()):  # nothing being removed, nothing being added
                _write_array(put, broker_ids, write_int32)
            for number in (record.leader, record.leader_epoch, record.partition_epoch):
                write_int32(put, number)  # type: ignore[arg-type]
            _write_array(put, record.directories, write_uuid)
        case ConfigRecord():
            write_int8(put, record.resource_type)  # type: ignore[arg-type]
            write_compact_string(put, record.resource_name)
            write_compact_string(put, record.name)
            write_nullable_compact_string(put, record.value)
        case RemoveTopicRecord():
            write_uuid(put, record.topic_id)
        case FeatureLevelRecord():
            write_compact_string(put, record.name)
            write_int16(put, record.feature_level)  # type: ignore[arg-type]
        case ProducerIdsRecord():
            write_int32(put, record.broker_id)  # type: ignore[arg-type]
            write_int64(put, record.broker_epoch)  # type: ignore[arg-type]
            write_int64(put, record.next_producer_id)  # type: ignore[arg-type]
        case _:
            _write_security_fields(put, record)


def _write_security_fields(put: Any, record: MetadataRecord) -> None:
    match record:
        case UserScramCredentialRecord():
            write_compact_string(put, record.name)
            write_int8(put, record.mechanism)  # type: ignore[arg-type]
            for content in (record.salt, record.stored_key, record.server_key):
                write_unsigned_varint(put, len(content) + 1)  # type: ignore[arg-type]
                put.write(content)
            write_int32(put, record.iterations)  # type: ignore[arg-type]
        case RemoveUserScramCredentialRecord():
            write_compact_string(put, record.name)
            write_int8(put, record.mechanism)  # type: ignore[arg-type]
        case AccessControlEntryRecord():
            write_uuid(put, record.id)
            write_int8(put, record.resource_type)  # type: ignore[arg-type]
            write_compact_string(put, record.resource_name)
            write_int8(put, record.pattern_type)  # type: ignore[arg-type]
            write_compact_string(put, record.principal)
            write_compact_string(put, record.host)
            write_int8(put, record.operation)  # type: ignore[arg-type]
            write_int8(put, record.permission_type)  # type: ignore[arg-type]
        case RemoveAccessControlEntryRecord():
            write_uuid(put, record.id)
        case _:
            pass  # transactions' marks have none


def _write_array(put: Any, items: tuple[Any, ...], write_item: Callable[[Any, Any], None]) -> None:
    write_compact_array_length(put, len(items))
    for item in items:
        write_item(put, item)


def _take_array(body: FieldReader, read: Callable[[Any, int], tuple[_T, int]], item_bytes: int) -> tuple[_T, ...]:
    """Items of a fixed size; the count is held against the bytes that remain before anything is allocated."""
    count = body.take_count(is_flexible=True, item_bytes=item_bytes)
    return tuple(body.take(read) for _ in range(count or 0))


def _read_topic(body: FieldReader, version: int) -> TopicRecord:
    return TopicRecord(name=body.take(read_compact_string), topic_id=_required_uuid(body))


def _required_uuid(body: FieldReader) -> UUID:
    return body.take(read_uuid) or UUID(int=0)


def _read_partition(body: FieldReader, version: int) -> PartitionRecord:
    partition_id, topic_id = body.take(read_int32), _required_uuid(body)
    replicas, isr = (_take_array(body, read_int32, _INT32_BYTES) for _ in range(2))
    for _ in range(2):
        _take_array(body, read_int32, _INT32_BYTES)
    leader, leader_epoch, partition_epoch = (body.take(read_int32) for _ in range(3))
    directories = _take_array(body, read_uuid, _UUID_BYTES) if version >= 1 else ()
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        directories=tuple(directory or UUID(int=0) for directory in directories),
    )


def _read_config(body: FieldReader, version: int) -> ConfigRecord:
    return ConfigRecord(
        resource_type=body.take(read_int8),
        resource_name=body.take(read_compact_string),
        name=body.take(read_compact_string),
        value=body.take(read_compact_string_nullable),
    )


def _read_remove_topic(body: FieldReader, version: int) -> RemoveTopicRecord:
    return RemoveTopicRecord(topic_id=_required_uuid(body))


def _read_feature_level(body: FieldReader, version: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=body.take(read_compact_string), feature_level=body.take(read_int16))


def _read_producer_ids(body: FieldReader, version: int) -> ProducerIdsRecord:
    return ProducerIdsRecord(
        broker_id=body.take(read_int32),
        broker_epoch=body.take(read_int64),
        next_producer_id=body.take(read_int64),
    )


def _read_scram_credential(body: FieldReader, version: int) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=body.take(read_compact_string),
        mechanism=body.take(read_int8),
        salt=body.take(read_compact_string_as_bytes),
        stored_key=body.take(read_compact_string_as_bytes),
        server_key=body.take(read_compact_string_as_bytes),
        iterations=body.take(read_int32),
    )


def _read_remove_scram_credential(body: FieldReader, version: int) -> RemoveUserScramCredentialRecord:
    return RemoveUserScramCredentialRecord(name=body.take(read_compact_string), mechanism=body.take(read_int8))


def _read_access_control_entry(body: FieldReader, version: int) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=_required_uuid(body),
        resource_type=body.take(read_int8),
        resource_name=body.take(read_compact_string),
        pattern_type=body.take(read_int8),
        principal=body.take(read_compact_string),
        host=body.take(read_compact_string),
        operation=body.take(read_int8),
        permission_type=body.take(read_int8),
    )


def _read_remove_access_control_entry(body: FieldReader, version: int) -> RemoveAccessControlEntryRecord:
    return RemoveAccessControlEntryRecord(id=_required_uuid(body))


def _transaction_reader(api_key: int) -> Callable[[FieldReader, int], MetadataTransactionRecord]:
    return lambda body, version: MetadataTransactionRecord(api_key=api_key)


_READERS: Final[dict[int, tuple[int, Callable[[FieldReader, int], MetadataRecord]]]] = {
    TopicRecord.api_key: (0, _read_topic),
    PartitionRecord.api_key: (2, _read_partition),
    ConfigRecord.api_key: (0, _read_config),
    RemoveTopicRecord.api_key: (0, _read_remove_topic),
    FeatureLevelRecord.api_key: (0, _read_feature_level),
    ProducerIdsRecord.api_key: (0, _read_producer_ids),
    UserScramCredentialRecord.api_key: (0, _read_scram_credential),
    RemoveUserScramCredentialRecord.api_key: (0, _read_remove_scram_credential),
    AccessControlEntryRecord.api_key: (0, _read_access_control_entry),
    RemoveAccessControlEntryRecord.api_key: (0, _read_remove_access_control_entry),
    **{
        api_key: (0, _transaction_reader(api_key))
        for api_key in (MetadataTransactionRecord.BEGIN, MetadataTransactionRecord.END, MetadataTransactionRecord.ABORT)
    },
}
"""By record type: the highest version known and the reader of its fields."""
