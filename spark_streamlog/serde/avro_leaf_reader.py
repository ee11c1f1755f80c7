"""Reads Avro's numbers, texts and bytes into lists of values. `avro_reader` describes reading functions."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from spark_streamlog.serde.avro_resolution import mismatch
from spark_streamlog.serde.avro_schema import AvroNode
from spark_streamlog.serde.avro_varint import read_length, read_varint
from spark_streamlog.serde.decoded_values import Unreadable
from spark_streamlog.serde.utf8_strings import text_of

Read = Callable[[bytes, int], int]

_FLOAT = struct.Struct("<f").unpack_from
_DOUBLE = struct.Struct("<d").unpack_from
_MILLISECONDS_HIGHEST = (2**63 - 1) // 1000
"""Spark stores microseconds."""
_DAY_MICROSECONDS = 24 * 3600 * 1_000_000


def leaf_reader(writer: AvroNode, reader: AvroNode, values: list[Any]) -> Read:
    """For types that resolve and contain no other types."""
    if writer.kind in ("int", "long"):
        if reader.kind in ("int", "long"):
            return _whole_number(*_bounds(writer, reader), values)
        return _whole_number_as_float(*_bounds(writer, writer), values)
    if writer.kind == "float":
        return _float(_FLOAT, 4, values)
    if writer.kind == "double":
        return _float(_DOUBLE, 8, values)
    if reader.logical == "decimal":
        return _decimal(writer, reader.arrow_type.precision, values)
    if writer.kind in ("string", "bytes"):
        return _bytes(values, is_text="string" in (writer.kind, reader.kind))
    if writer.kind == "fixed":
        return _fixed(writer.size, values)
    if writer.kind == "enum":
        return _enum(writer, reader, values)
    return _boolean(values) if writer.kind == "boolean" else _null(values)


def _bounds(writer: AvroNode, reader: AvroNode) -> tuple[int, int]:
    if reader.logical == "time-micros":
        return 0, _DAY_MICROSECONDS - 1
    if reader.logical in ("timestamp-millis", "local-timestamp-millis"):
        return -_MILLISECONDS_HIGHEST, _MILLISECONDS_HIGHEST
    half = 2**31 if "int" in (writer.kind, reader.kind) else 2**63
    return -half, half - 1


def _whole_number(lowest: int, highest: int, values: list[Any]) -> Read:
    append = values.append
    is_checked_at_once = lowest > -64

    def read(data: bytes, position: int) -> int:
        byte = data[position]
        if byte < 0x80 and not is_checked_at_once:
            append((byte >> 1) ^ -(byte & 1))
            return position + 1
        number, position = read_varint(data, position)
        if not lowest <= number <= highest:
            raise Unreadable(f"{number} is not between {lowest} and {highest}")
        append(number)
        return position

    return read


def _whole_number_as_float(lowest: int, highest: int, values: list[Any]) -> Read:
    def read(data: bytes, position: int) -> int:
        number, position = read_varint(data, position)
        if not lowest <= number <= highest:
            raise Unreadable(f"{number} is not between {lowest} and {highest}")
        values.append(float(number))
        return position

    return read


def _float(unpack: Callable[[bytes, int], tuple[Any, ...]], width: int, values: list[Any]) -> Read:
    append = values.append

    def read(data: bytes, position: int) -> int:
        append(unpack(data, position)[0])
        return position + width

    return read


def _bytes(values: list[Any], *, is_text: bool) -> Read:
    append = values.append

    def read(data: bytes, position: int) -> int:
        length, position = read_length(data, position)
        end = position + length
        value = data[position:end]
        if is_text and not value.isascii():
            text_of(value)
        append(value)
        return end

    return read


def _fixed(size: int, values: list[Any]) -> Read:
    def read(data: bytes, position: int) -> int:
        end = position + size
        if end > len(data):
            raise Unreadable(f"the fixed has {size} bytes, and {len(data) - position} bytes are left")
        values.append(data[position:end])
        return end

    return read


def _decimal(writer: AvroNode, precision: int, values: list[Any]) -> Read:
    limit = 10**precision
    raw: list[bytes] = []
    read_raw = _fixed(writer.size, raw) if writer.kind == "fixed" else _bytes(raw, is_text=False)

    def read(data: bytes, position: int) -> int:
        position = read_raw(data, position)
        value = raw.pop()
        number = int.from_bytes(value, "big", signed=True)
        if not value or not -limit < number < limit:
            raise Unreadable(f"the decimal has more than {precision} digits" if value else "the decimal has no bytes")
        values.append(number)
        return position

    return read


def _enum(writer: AvroNode, reader: AvroNode, values: list[Any]) -> Read:
    by_symbol = {symbol: place for place, symbol in enumerate(reader.symbols)}
    default = by_symbol.get(reader.default_symbol or "")
    places = [by_symbol.get(symbol, default) for symbol in writer.symbols]
    if places and not any(place is not None for place in places):
        raise mismatch(writer, reader, "they have no symbol in common")

    def read(data: bytes, position: int) -> int:
        written, position = read_varint(data, position)
        if not 0 <= written < len(places):
            raise Unreadable(f"symbol {written} of an enum that has {len(places)}")
        place = places[written]
        if place is None:
            raise Unreadable(f"the symbol {writer.symbols[written]} does not exist in the reader's {reader}")
        values.append(place)
        return position

    return read


def _boolean(values: list[Any]) -> Read:
    def read(data: bytes, position: int) -> int:
        byte = data[position]
        if byte > 1:
            raise Unreadable(f"a boolean is 0 or 1, not {byte}")
        values.append(byte == 1)
        return position + 1

    return read


def _null(values: list[Any]) -> Read:
    def read(data: bytes, position: int) -> int:
        values.append(None)
        return position

    return read
