"""Kafka's serializers of numbers: big-endian two's complement or IEEE 754, without any other bytes.

    short   2 bytes  ShortSerializer      smallint        float   4 bytes  FloatSerializer    float
    int     4 bytes  IntegerSerializer    int             double  8 bytes  DoubleSerializer   double
    long    8 bytes  LongSerializer       bigint

A value of another length is corrupt, as for Kafka's deserializers. The bytes of a whole column are swapped at once,
without a Python object per value.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_streamlog.serde.decoded_values import DecodedValues, binary_array
from spark_streamlog.serde.serde_errors import InvalidSchemaError


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedWidth:
    """`typecode` is that of the module array; `accepted` are the column types that can be written without loss."""

    name: str
    width: int
    typecode: str
    arrow_type: Any
    accepted: tuple[Any, ...]


FIXED_WIDTHS: Final = {
    known.name: known
    for known in (
        FixedWidth(name="short", width=2, typecode="h", arrow_type=pa.int16(), accepted=(pa.int8(), pa.int16())),
        FixedWidth(
            name="int", width=4, typecode="i", arrow_type=pa.int32(), accepted=(pa.int8(), pa.int16(), pa.int32())
        ),
        FixedWidth(
            name="long", width=8, typecode="q", arrow_type=pa.int64(),
            accepted=(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        ),
        FixedWidth(name="float", width=4, typecode="f", arrow_type=pa.float32(), accepted=(pa.float32(),)),
        FixedWidth(
            name="double", width=8, typecode="d", arrow_type=pa.float64(), accepted=(pa.float32(), pa.float64())
        ),
    )
}  # fmt: skip


class FixedWidthDecoder:
    def __init__(self, known: FixedWidth) -> None:
        self._known = known
        self.arrow_type = known.arrow_type

    def decode(self, values: Any) -> DecodedValues:
        values = binary_array(values)
        width = self._known.width
        lengths = pc.binary_length(values)
        is_right = pc.equal(lengths, width)
        faults: dict[int, str] = {}
        if pc.all(is_right).as_py() is False:
            wrong = pc.indices_nonzero(pc.invert(is_right))
            found = lengths.take(wrong).to_pylist()
            faults = {
                row: f"{self._known.name} needs {width} bytes, and the value has {length}"
                for row, length in zip(wrong.to_pylist(), found, strict=True)
            }
            values = pc.if_else(is_right, values, pa.scalar(None, pa.binary()))
        return DecodedValues(column=self._numbers(values), faults=faults)

    def _numbers(self, values: Any) -> Any:
        dense = values.fill_null(bytes(self._known.width)) if values.null_count else values
        _, offsets, data = dense.buffers()
        numbers = array(self._known.typecode)
        if len(dense):
            first = memoryview(offsets).cast("i")[dense.offset]
            numbers.frombytes(memoryview(data)[first : first + len(dense) * self._known.width])
        column = pa.Array.from_buffers(self.arrow_type, len(dense), [None, pa.py_buffer(_swapped(numbers))])
        if not values.null_count:
            return column
        return pc.if_else(values.is_valid(), column, pa.scalar(None, self.arrow_type))


class FixedWidthEncoder:
    """For a column of one of the accepted types. Raises InvalidSchemaError for any other type."""

    def __init__(self, known: FixedWidth, arrow_type: Any) -> None:
        if arrow_type not in known.accepted:
            raise InvalidSchemaError(f"{arrow_type} cannot be written as {known.name}")
        self._known = known

    def encode(self, column: Any) -> Any:
        numbers_type = self._known.arrow_type
        column = column if column.type == numbers_type else column.cast(numbers_type)
        width, count = self._known.width, len(column)
        numbers = array(self._known.typecode)
        if count:
            data = memoryview(column.buffers()[1])
            numbers.frombytes(data[column.offset * width : (column.offset + count) * width])
        fixed = pa.binary(width)
        values = pa.Array.from_buffers(fixed, count, [None, pa.py_buffer(_swapped(numbers))])
        if column.null_count:
            values = pc.if_else(column.is_valid(), values, pa.scalar(None, fixed))
        return values.cast(pa.binary())


def _swapped(numbers: array[Any]) -> array[Any]:
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
