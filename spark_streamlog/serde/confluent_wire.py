"""Confluent's wire format: the bytes that a registry's serializers write before a value.

    byte 0      magic 0
    bytes 1-4   schema id, unsigned, big-endian
    then        Avro: the value.   Protobuf: message indexes, then the value

Message indexes identify the message within the schema's file: a count and that many positions, from the outermost
message inwards, all as zigzag varints. The first message of the file, [0], is the single byte 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker_core.record.varint import append_varint
from spark_streamlog.serde.decoded_values import Unreadable

HEADER_SIZE: Final = 5
MAX_SCHEMA_ID: Final = 2**31 - 1
"""Registries use Java's int for ids."""
MAX_INDEX_COUNT: Final = 100
"""Nesting of messages; the compiler of .proto files allows no more."""


def schema_id_of(value: bytes) -> int:
    """Raises Unreadable if the value does not begin with a header."""
    if len(value) < HEADER_SIZE:
        raise Unreadable(f"the value is too short for a schema id: {len(value)} bytes")
    if value[0] != 0:
        raise Unreadable(f"the first byte is {value[0]}, not the magic byte 0 of the wire format")
    schema_id = int.from_bytes(value[1:HEADER_SIZE], "big")
    if schema_id > MAX_SCHEMA_ID:
        raise Unreadable(f"{schema_id} is not a valid schema id")
    return schema_id


def header(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(HEADER_SIZE - 1, "big")


def read_message_indexes(value: bytes, position: int) -> tuple[tuple[int, ...], int]:
    """Returns (indexes, position after them). Raises Unreadable."""
    count, position = _read_varint(value, position)
    if count == 0:
        return (0,), position
    if not 0 < count <= MAX_INDEX_COUNT:
        raise Unreadable(f"the value has {count} message indexes")
    indexes = []
    for _ in range(count):
        index, position = _read_varint(value, position)
        indexes.append(index)
    return tuple(indexes), position


def message_indexes(indexes: Sequence[int]) -> bytes:
    if tuple(indexes) == (0,):
        return b"\0"
    out = bytearray()
    for number in (len(indexes), *indexes):
        append_varint(out, number)
    return bytes(out)


def _read_varint(value: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if position >= len(value) or shift > 28:
            raise Unreadable("the message indexes are broken")
        byte = value[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
