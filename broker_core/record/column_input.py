"""Converts Arrow arrays of any type, slice or width into the kernels' input: addresses of buffers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from broker_core.model.exceptions import InvalidRequestError
from broker_core.record.kernel_protocol import BinaryColumn, HeaderColumn, NumberColumn

_NARROW = (pa.binary(), pa.string())
_WIDE = (pa.large_binary(), pa.large_string())
_NO_OFFSETS = bytes(8)
_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def key_or_value_column(name: str, array: Any) -> BinaryColumn:
    """A key or value column: binary or string of any layout. Raises InvalidRequestError for any other type."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        array, kind = array.dictionary_decode(), kind.value_type
    if kind in _NARROW or kind in _WIDE:
        return _binary_column(array)
    if pa.types.is_null(kind):
        return _binary_column(array.cast(pa.binary()))
    if pa.types.is_binary_view(kind) or pa.types.is_string_view(kind):
        return _binary_column(array.cast(pa.large_binary()))
    if pa.types.is_fixed_size_binary(kind):
        return _binary_column(array.cast(pa.binary()))
    raise InvalidRequestError(f"column {name!r} must be binary or string, not {kind}")


def timestamp_column(array: Any) -> NumberColumn:
    """Timestamps in ms: int64 unchanged, timestamp types rounded down. Raises InvalidRequestError."""
    kind = array.type
    if pa.types.is_null(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_timestamp(kind):
        array = _milliseconds(array)
    elif kind != pa.int64():
        raise InvalidRequestError(f"column 'timestamp' must be a timestamp or int64 milliseconds, not {kind}")
    validity, data = array.buffers()
    return NumberColumn(validity if array.null_count else None, data if data is not None else b"", array.offset)


def _milliseconds(array: Any) -> Any:
    units = {"s": -1000, "ms": 1, "us": 1000, "ns": 1_000_000}
    factor = units[array.type.unit]
    numbers = array.cast(pa.int64())
    if factor == 1:
        return numbers
    # Readers do not need it, and it is slow to load.
    import pyarrow.compute as pc

    try:
        if factor < 0:
            return pc.multiply_checked(numbers, pa.scalar(-factor, pa.int64()))
        # Arrow divides towards zero, which rounds up before 1970, so the remainder is subtracted first.
        quotient = pc.divide(numbers, pa.scalar(factor, pa.int64()))
        is_rounded_up = pc.greater(pc.multiply(quotient, pa.scalar(factor, pa.int64())), numbers)
        return pc.subtract(quotient, is_rounded_up.cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise InvalidRequestError(f"column 'timestamp' holds a time that does not fit milliseconds: {error}") from error


def header_column(array: Any) -> HeaderColumn | None:
    """A list<struct<key, value>>, or a type that Arrow can cast to it. None if no row has headers."""
    if pa.types.is_null(array.type):
        return None
    if array.type != _HEADERS:
        try:
            array = array.cast(_HEADERS)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            wanted = "array<struct<key: string, value: binary>>"
            raise InvalidRequestError(f"column 'headers' must be {wanted}, not {array.type}: {error}") from error
    pairs = array.values
    keys, values = pairs.flatten() if pairs.null_count else (pairs.field(0), pairs.field(1))
    validity, offsets = array.buffers()[:2]
    return HeaderColumn(
        validity if array.null_count else None,
        offsets if offsets is not None else _NO_OFFSETS,
        array.offset,
        _binary_column(keys),
        _binary_column(values),
    )


def partition_column(array: Any) -> NumberColumn:
    """Explicit partitions as int32, null where the partitioner decides. Raises InvalidRequestError for other types."""
    if array.type != pa.int32():
        if not (pa.types.is_integer(array.type) or pa.types.is_null(array.type)):
            raise InvalidRequestError(f"column 'partition' must be int32, not {array.type}")
        try:
            array = array.cast(pa.int32())
        except pa.ArrowInvalid as error:
            raise InvalidRequestError(f"column 'partition' holds an invalid partition: {error}") from error
    validity, data = array.buffers()
    return NumberColumn(validity if array.null_count else None, data if data is not None else b"", array.offset)


def index_buffer(rows: Any) -> memoryview:
    """The int32 indices of an array without nulls, as bytes."""
    assert rows.type == pa.int32() and not rows.null_count, f"rows must be int32 without nulls, not {rows.type}"
    data = rows.buffers()[1]
    if data is None:
        return memoryview(b"")
    return memoryview(data)[4 * rows.offset : 4 * (rows.offset + len(rows))]


def _binary_column(array: Any) -> BinaryColumn:
    width = 8 if array.type in _WIDE else 4
    validity, offsets, data = array.buffers()
    if offsets is None or offsets.size < width:
        offsets = _NO_OFFSETS
    return BinaryColumn(validity if array.null_count else None, offsets, data, array.offset, width)
