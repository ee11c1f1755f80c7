"""Writes numbers, texts and bytes as Avro. `avro_writer` describes writing functions."""

from __future__ import annotations

import decimal
import struct
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from spark_streamlog.serde.avro_schema import AvroNode
from spark_streamlog.serde.avro_varint import varint
from spark_streamlog.serde.encoded_rows import Unwritable
from spark_streamlog.serde.serde_errors import InvalidSchemaError

Write = Callable[[Any], list[bytes]]

_WIDE: Final = decimal.Context(prec=100)
"""Python's default context would round to 28 digits."""


def leaf_writer(node: AvroNode, arrow_type: Any, path: str) -> Write:
    """For arrays without nulls. Raises InvalidSchemaError if the schema cannot represent the type."""
    write = _numbers(node, arrow_type) or _times(node, arrow_type) or _texts(node, arrow_type, path)
    if write is None:
        raise InvalidSchemaError(f"{path or 'the value'} of the type {arrow_type} cannot be written as {node}")
    return write


def _numbers(node: AvroNode, arrow_type: Any) -> Write | None:
    kind = node.kind
    if node.logical not in (None, "decimal"):
        return None
    if pa.types.is_boolean(arrow_type) and kind == "boolean":
        return lambda array: [b"\1" if one else b"\0" for one in array.to_pylist()]
    if pa.types.is_null(arrow_type) and kind == "null":
        return lambda array: [b""] * len(array)
    narrow = arrow_type in (pa.int8(), pa.int16(), pa.int32())
    if (narrow and kind in ("int", "long")) or (arrow_type == pa.int64() and kind == "long"):
        return _varints
    if (narrow or pa.types.is_floating(arrow_type)) and kind == "double":
        return lambda array: _packed(array.cast(pa.float64()), "<d")
    if arrow_type == pa.float32() and kind == "float":
        return lambda array: _packed(array, "<f")
    if pa.types.is_decimal(arrow_type) and node.logical == "decimal":
        return _decimals(node, arrow_type)
    return None


def _times(node: AvroNode, arrow_type: Any) -> Write | None:
    if pa.types.is_date32(arrow_type):
        return (lambda array: _varints(array.cast(pa.int32()))) if node.logical == "date" else None
    if pa.types.is_time64(arrow_type):
        is_micros = node.logical == "time-micros"
        return (lambda array: _varints(array.cast(pa.time64("us"), safe=False).cast(pa.int64()))) if is_micros else None
    if not pa.types.is_timestamp(arrow_type) or node.kind != "long":
        return None
    local = "" if arrow_type.tz else "local-"
    if node.logical == f"{local}timestamp-micros":
        return lambda array: _varints(_microseconds(array))
    if node.logical in (None, f"{local}timestamp-millis"):
        return lambda array: [varint(number // 1000) for number in _microseconds(array).to_pylist()]
    return None


def _microseconds(array: Any) -> Any:
    return array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())


def _texts(node: AvroNode, arrow_type: Any, path: str) -> Write | None:
    is_text = pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type)
    is_bytes = pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type)
    if node.logical is None and ((is_text and node.kind == "string") or (is_bytes and node.kind == "bytes")):
        return lambda array: [varint(len(one)) + one for one in array.cast(pa.binary()).to_pylist()]
    if is_text and node.kind == "enum":
        return _symbols(node, path)
    if is_bytes and node.kind == "fixed" and node.logical is None:
        return _fixed(node, path)
    return None


def _symbols(node: AvroNode, path: str) -> Write:
    by_symbol = {symbol: varint(place) for place, symbol in enumerate(node.symbols)}

    def write(array: Any) -> list[bytes]:
        try:
            return [by_symbol[one] for one in array.to_pylist()]
        except KeyError as missing:
            raise Unwritable(f"{path or 'the value'} is {missing.args[0]!r}, which {node} does not have") from None

    return write


def _fixed(node: AvroNode, path: str) -> Write:
    def write(array: Any) -> list[bytes]:
        values: list[bytes] = array.to_pylist()
        for value in values:
            if len(value) != node.size:
                raise Unwritable(f"{path or 'the value'} has {len(value)} bytes, and {node} has {node.size}")
        return values

    return write


def _decimals(node: AvroNode, arrow_type: Any) -> Write | None:
    precision, scale = node.arrow_type.precision, node.arrow_type.scale
    if arrow_type.scale != scale or arrow_type.precision > precision:
        return None

    def write(array: Any) -> list[bytes]:
        numbers = [int(one.scaleb(scale, _WIDE)) for one in array.to_pylist()]
        if node.kind == "fixed":
            return [number.to_bytes(node.size, "big", signed=True) for number in numbers]
        return [_with_length(_shortest(number)) for number in numbers]

    return write


def _shortest(number: int) -> bytes:
    """Two's complement, big-endian, with the fewest bytes that hold the number and its sign."""
    bit_count = (number if number >= 0 else ~number).bit_length() + 1
    return number.to_bytes((bit_count + 7) // 8, "big", signed=True)


def _with_length(value: bytes) -> bytes:
    return varint(len(value)) + value


def _varints(array: Any) -> list[bytes]:
    return [varint(number) for number in array.to_pylist()]


def _packed(array: Any, form: str) -> list[bytes]:
    pack = struct.Struct(form).pack
    return [pack(number) for number in array.to_pylist()]
