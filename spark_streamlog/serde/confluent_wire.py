"""Confluent's wire format: what a registry's serializers put before a value.

    byte 0      magic 0
    bytes 1-4   schema id, unsigned, big-endian
    then        Avro: the value.   Protobuf: message indexes, then the value

Message indexes say which message of the schema's file it is: a count and as many positions, from the outermost message
inwards, all as zigzag varints; the first message of the file, [0], is the single byte 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spark_streamlog.serde.decoded_values import Unreadable

HEADER_SIZE: Final = 5
MAX_SCHEMA_ID: Final = 2**31 - 1
"""Registries count in Java's ints."""
MAX_INDEX_COUNT: Final = 100
"""Messages within messages; the compiler of .proto files allows no more."""


def schema_id_of(value: bytes) -> int:
    """Raises Unreadable when the value does not begin with a header."""
    if len(value) < HEADER_SIZE:
        raise Unreadable(f"too short for a schema id: {len(value)} bytes")
    if value[0] != 0:
        raise Unreadable(f"it begins with {value[0]} and not with the magic byte 0 of the wire format")
    schema_id = int.from_bytes(value[1:HEADER_SIZE], "big")
    if schema_id > MAX_SCHEMA_ID:
        raise Unreadable(f"{schema_id} is no schema id")
    return schema_id


def header(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(HEADER_SIZE - 1, "big")


def read_message_indexes(value: bytes, position: int) -> tuple[tuple[int, ...], int]:
    """(indexes, position behind them). Raises Unreadable."""
    count, position = _read_varint(value, position)
    if count == 0:
        return (0,), position
    if not 0 < count <= MAX_INDEX_COUNT:
        raise Unreadable(f"{count} message indexes")
    indexes = []
    for _ in range(count):
        index, position = _read_varint(value, position)
        indexes.append(index)
    return tuple(indexes), position


def message_indexes(indexes: Sequence[int]) -> bytes:
    if tuple(indexes) == (0,):
        return b"\0"
    return b"".join(_varint(number) for number in (len(indexes), *indexes))


def _read_varint(value: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if position >= len(value) or shift > 28:
            raise Unreadable("broken message indexes")
        byte = value[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position


def _varint(number: int) -> bytes:
    zigzag = number * 2 if number >= 0 else -number * 2 - 1
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)
