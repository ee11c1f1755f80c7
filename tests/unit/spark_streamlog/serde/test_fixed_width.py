"""Kafka's numbers: bytes as Kafka's own serializers wrote them (kafka-clients 4.3.1, Java 17), and struct.pack."""

import math
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs.examples import examples

from spark_streamlog.serde.fixed_width import FIXED_WIDTHS, FixedWidthDecoder, FixedWidthEncoder
from spark_streamlog.serde.serde_errors import InvalidSchemaError

BY_KAFKA = {
    "short": {0: "0000", 1: "0001", -1: "ffff", 32767: "7fff", -32768: "8000"},
    "int": {
        0: "00000000", 1: "00000001", -1: "ffffffff", 2**31 - 1: "7fffffff", -(2**31): "80000000", 1234567: "0012d687",
    },
    "long": {
        0: "0000000000000000", 1: "0000000000000001", -1: "ffffffffffffffff", 2**63 - 1: "7fffffffffffffff",
        -(2**63): "8000000000000000", 2**40 + 5: "0000010000000005",
    },
    "float": {
        0.0: "00000000", 1.5: "3fc00000", -1.0e10: "d01502f9", math.inf: "7f800000",
        3.4028234663852886e38: "7f7fffff",
    },
    "double": {
        0.0: "0000000000000000", 1.5: "3ff8000000000000", -1.0e100: "d4b249ad2594c37d", -math.inf: "fff0000000000000",
        5e-324: "0000000000000001",
    },
}  # fmt: skip
PACKED = {"short": ">h", "int": ">i", "long": ">q", "float": ">f", "double": ">d"}
NUMBERS = {
    "short": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
}


def decoded(name, values):
    return FixedWidthDecoder(FIXED_WIDTHS[name]).decode(values)


def encoded(name, column):
    return FixedWidthEncoder(FIXED_WIDTHS[name], column.type).encode(column)


@pytest.mark.parametrize("name", BY_KAFKA)
def test_bytes_equal_those_of_kafkas_serializers(name):
    numbers = list(BY_KAFKA[name])
    column = pa.array(numbers, FIXED_WIDTHS[name].arrow_type)
    values = encoded(name, column)
    assert [value.hex() for value in values.to_pylist()] == list(BY_KAFKA[name].values())
    assert decoded(name, values).column.equals(column)


def test_nan_has_javas_bytes():
    assert encoded("float", pa.array([math.nan], pa.float32()))[0].as_py().hex() == "7fc00000"
    assert encoded("double", pa.array([math.nan]))[0].as_py().hex() == "7ff8000000000000"


@examples(30)
@given(st.data())
@pytest.mark.parametrize("name", PACKED)
def test_any_slice_with_nulls_round_trips_and_equals_pythons_struct(name, data):
    numbers = data.draw(st.lists(st.none() | NUMBERS[name], max_size=20))
    start = data.draw(st.integers(0, len(numbers)))
    column = pa.array([None, *numbers], FIXED_WIDTHS[name].arrow_type)[1 + start :]
    values = encoded(name, column)
    assert values.type == pa.binary()
    expected = [None if number is None else struct.pack(PACKED[name], number) for number in numbers[start:]]
    assert values.to_pylist() == expected
    found = decoded(name, pa.array([b"xx", *expected], pa.binary())[1:])
    assert found.column.equals(column)
    assert found.faults == {}


def test_a_value_of_another_length_is_corrupt_and_its_row_is_kept():
    found = decoded("int", pa.array([b"\0\0\0\1", b"", None, b"\0\0\0", b"\0\0\0\0\0", b"\0\0\0\2"]))
    assert found.column.to_pylist() == [1, None, None, None, None, 2]
    assert found.faults == {
        1: "int needs 4 bytes, and the value has 0",
        3: "int needs 4 bytes, and the value has 3",
        4: "int needs 4 bytes, and the value has 5",
    }


def test_null_rows_with_hidden_bytes_are_null():
    offsets = pa.array([0, 4, 9, 13], pa.int32()).buffers()[1]
    validity = pa.array([True, False, True]).buffers()[1]
    values = pa.Array.from_buffers(pa.binary(), 3, [validity, offsets, pa.py_buffer(b"\0\0\0\1zzzzz\0\0\0\2")])
    assert decoded("int", values).column.to_pylist() == [1, None, 2]


def test_large_and_empty_columns_are_decoded():
    assert decoded("long", pa.array([b"\0" * 8], pa.large_binary())).column.to_pylist() == [0]
    assert decoded("long", pa.array([], pa.binary())).column.to_pylist() == []
    assert encoded("long", pa.array([], pa.int64())).to_pylist() == []


@pytest.mark.parametrize(
    ("name", "arrow_type"),
    [("short", pa.int8()), ("int", pa.int16()), ("long", pa.int32()), ("double", pa.float32())],
)
def test_narrower_columns_are_widened(name, arrow_type):
    assert encoded(name, pa.array([-5], arrow_type))[0].as_py() == struct.pack(PACKED[name], -5)


@pytest.mark.parametrize(
    ("name", "arrow_type"),
    [
        ("int", pa.int64()),
        ("short", pa.int32()),
        ("float", pa.float64()),
        ("long", pa.string()),
        ("double", pa.int32()),
    ],
)
def test_columns_that_do_not_fit_are_refused(name, arrow_type):
    with pytest.raises(InvalidSchemaError, match=f"cannot be written as {name}"):
        FixedWidthEncoder(FIXED_WIDTHS[name], arrow_type)
