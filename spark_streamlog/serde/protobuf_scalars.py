"""Columns of numbers, texts, bytes, enums and times to arguments for a Protobuf message's constructor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from spark_streamlog.serde.encoded_rows import Unwritable
from spark_streamlog.serde.protobuf_types import WRAPPERS

Write = Callable[[Any], list[Any]]

_INTEGERS_32 = (pa.int8(), pa.int16(), pa.int32())


def scalar_writer(field: Any, arrow_type: Any, path: str) -> Write | None:
    """None if the type does not fit the field."""
    if field.type == field.TYPE_ENUM:
        return _enum_writer(field.enum_type, arrow_type, path)
    if field.type == field.TYPE_BYTES:
        is_bytes = pa.types.is_binary(arrow_type) or pa.types.is_large_binary(arrow_type)
        return _as_they_are if is_bytes else None
    if field.type == field.TYPE_STRING:
        is_text = pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type)
        return _as_they_are if is_text else None
    accepted: dict[int, tuple[Any, ...]] = {
        field.CPPTYPE_BOOL: (pa.bool_(),),
        field.CPPTYPE_INT32: _INTEGERS_32,
        field.CPPTYPE_INT64: (*_INTEGERS_32, pa.int64()),
        field.CPPTYPE_FLOAT: (pa.float32(),),
        field.CPPTYPE_DOUBLE: (pa.float32(), pa.float64()),
    }
    if arrow_type in accepted.get(field.cpp_type, ()):
        return _as_they_are
    if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
        return _unsigned_writer(32 if field.cpp_type == field.CPPTYPE_UINT32 else 64, arrow_type)
    return None


def time_writer(message: Any, arrow_type: Any) -> Write | None:
    """For the messages Timestamp and Duration, from a timestamp and an interval; None for all others."""
    is_timestamp = pa.types.is_timestamp(arrow_type) and message.name == "Timestamp"
    is_duration = pa.types.is_duration(arrow_type) and message.name == "Duration"
    if not (is_timestamp or is_duration) or {"seconds", "nanos"} != {field.name for field in message.fields}:
        return None
    from google.protobuf import message_factory

    message_class: Any = message_factory.GetMessageClass(message)
    unit = pa.timestamp("us", arrow_type.tz) if is_timestamp else pa.duration("us")

    def build(micros: int) -> Any:
        seconds, rest = divmod(micros, 1_000_000)
        if is_duration and seconds < 0 and rest:
            # Both parts of a Duration have the same sign.
            seconds, rest = seconds + 1, rest - 1_000_000
        return message_class(seconds=seconds, nanos=rest * 1000)

    return lambda array: [
        None if micros is None else build(micros) for micros in array.cast(unit).cast(pa.int64()).to_pylist()
    ]


def is_wrapper(message: Any) -> bool:
    return message.full_name in WRAPPERS


def _as_they_are(array: Any) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values


def _unsigned_writer(bits: int, arrow_type: Any) -> Write | None:
    mask = (1 << bits) - 1
    if arrow_type in (*_INTEGERS_32, *([pa.int64()] if bits == 64 else [])):
        return lambda array: [None if one is None else one & mask for one in array.to_pylist()]
    is_wider = arrow_type == pa.int64() if bits == 32 else pa.types.is_decimal(arrow_type) and arrow_type.scale == 0
    return (lambda array: [None if one is None else int(one) for one in array.to_pylist()]) if is_wider else None


def _enum_writer(enum: Any, arrow_type: Any, path: str) -> Write | None:
    if arrow_type in _INTEGERS_32:
        return _as_they_are
    if not (pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type)):
        return None
    numbers = {value.name: value.number for value in enum.values}

    def write(array: Any) -> list[Any]:
        names = array.to_pylist()
        unknown = next((name for name in names if name is not None and name not in numbers), None)
        if unknown is not None:
            raise Unwritable(f"{path} is {unknown!r}, which the enum {enum.full_name} does not have")
        return [None if name is None else numbers[name] for name in names]

    return write
