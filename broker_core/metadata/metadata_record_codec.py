"""Metadata records <-> the values of `__cluster_metadata`, byte for byte as Kafka writes them.

    unsigned varint   frame version, 1
    unsigned varint   record type, `api_key`
    unsigned varint   version of the record
    fields            in Kafka's flexible encoding, tagged fields last (`record_reader`)

Which fields there are stands in `metadata_schemas`. A type or a version that is not in it is refused: a node that skips
what it does not understand would have another image than the rest of the cluster, at the same offset.
"""

from __future__ import annotations

from typing import Final

from broker_core.coordinator.record_fields import unsigned_varint
from broker_core.metadata.metadata_records import MetadataRecord
from broker_core.metadata.metadata_schemas import RECORD_TYPES, SCHEMAS
from broker_core.metadata.record_reader import FieldError, read_unsigned, struct_reader
from broker_core.metadata.record_writer import struct_writer
from broker_core.model.exceptions import CorruptBatchError, UnsupportedFormatError

FRAME_VERSION: Final = 1

_TYPES: Final[dict[int, type]] = {kind.api_key: kind for kind in RECORD_TYPES}


def encode_metadata_record(record: MetadataRecord) -> bytes:
    """The record's value in the log, in the record's own version."""
    kind: type = type(record)
    assert record.version in SCHEMAS[kind].versions, record
    out = bytearray()
    for number in (FRAME_VERSION, record.api_key, record.version):
        out += unsigned_varint(number)
    struct_writer(kind, record.version)(out, record)
    return bytes(out)


def decode_metadata_record(value: bytes | memoryview) -> MetadataRecord:
    """The record in a value of the log.

    Raises UnsupportedFormatError for a frame version that is not 1 and for a type or version that is not known, and
    CorruptBatchError when the fields do not fit the bytes exactly.
    """
    content = bytes(value)
    try:
        return _decode(content)
    except FieldError as error:
        raise CorruptBatchError(f"metadata record of {len(content)} bytes, at byte {error.position}: {error}") from None


def _decode(content: bytes) -> MetadataRecord:
    frame_version, position = read_unsigned(content, 0)
    if frame_version != FRAME_VERSION:
        raise UnsupportedFormatError(f"metadata record has frame version {frame_version}, supported is {FRAME_VERSION}")
    api_key, position = read_unsigned(content, position)
    version, position = read_unsigned(content, position)
    kind = _TYPES.get(api_key)
    if kind is None:
        raise UnsupportedFormatError(f"metadata record of type {api_key} is not supported: a newer version wrote it")
    versions = SCHEMAS[kind].versions
    if version not in versions:
        raise UnsupportedFormatError(
            f"{kind.__name__} has version {version}, supported are 0 to {versions[-1]}: a newer version wrote it"
        )
    record, end = struct_reader(kind, version)(content, position)
    if end != len(content):
        raise FieldError(end, f"{len(content) - end} bytes are left behind the last field")
    found: MetadataRecord = record
    return found
