"""Columns to JSON, judged by Python's json."""

import base64
import datetime
import json
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs.examples import examples

from spark_streamlog.serde.json_encoder import JsonEncoder, JsonTextEncoder, entry_counts, map_entries
from spark_streamlog.serde.serde_errors import CannotSerializeError, InvalidSchemaError
from spark_streamlog.serde.spark_type_text import parse_spark_type

UTC = datetime.UTC


def texts(ddl, rows):
    arrow_type = parse_spark_type(ddl)
    return JsonEncoder(arrow_type).encode(pa.array(rows, arrow_type)).to_pylist()


@pytest.mark.parametrize(
    ("ddl", "row", "expected"),
    [
        ("a INT, b STRING", {"a": 1, "b": "x"}, '{"a":1,"b":"x"}'),
        ("a INT, b STRING", {"b": "x"}, '{"b":"x"}'),
        ("a INT, b STRING", {}, "{}"),
        ("a INT, b STRING", None, None),
        ("a BOOLEAN, b TINYINT", {"a": False, "b": -128}, '{"a":false,"b":-128}'),
        ("d DATE", {"d": datetime.date(1969, 12, 31)}, '{"d":"1969-12-31"}'),
        ("t TIMESTAMP", {"t": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)},
         '{"t":"1969-12-31T23:59:59.999999Z"}'),
        ("t TIMESTAMP_NTZ", {"t": datetime.datetime(2024, 2, 29, 12)}, '{"t":"2024-02-29T12:00:00.000000"}'),
        ("e DECIMAL(10,2)", {"e": Decimal("1.50")}, '{"e":1.50}'),
        ("b BINARY", {"b": b"\xff\x00"}, '{"b":"/wA="}'),
        ("d DOUBLE, f FLOAT", {"d": 0.1, "f": 0.1}, '{"d":0.1,"f":0.1}'),
        ("d DOUBLE", {"d": math.nan}, '{"d":"NaN"}'),
        ("d DOUBLE, f FLOAT", {"d": math.inf, "f": -math.inf}, '{"d":"Infinity","f":"-Infinity"}'),
        ("array<array<int>>", [[1, None], None, []], "[[1,null],null,[]]"),
        ("array<struct<a:int>>", [{"a": None}, None], "[{},null]"),
        ("map<string,int>", [("k", 1), ("l", None)], '{"k":1,"l":null}'),
        ("map<string,array<string>>", [], "{}"),
        ("a STRUCT<b: STRUCT<c: INT>>", {"a": {"b": None}}, '{"a":{}}'),
        ('`x y"` INT', {'x y"': 1}, '{"x y\\"":1}'),
    ],
)  # fmt: skip
def test_each_type_has_its_json_form(ddl, row, expected):
    assert texts(ddl, [row]) == [expected]


@examples(50)
@given(st.lists(st.none() | st.text(), max_size=8))
def test_any_text_round_trips(values):
    rows = [{"s": value, "l": [value]} for value in values]
    for row, text in zip(rows, texts("s STRING, l ARRAY<STRING>", rows), strict=True):
        assert json.loads(text) == ({"l": [None]} if row["s"] is None else row)


@examples(50)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=8))
def test_any_number_round_trips(values):
    assert [json.loads(text)["d"] for text in texts("d DOUBLE", [{"d": value} for value in values])] == values


def test_a_slice_is_written_correctly():
    ddl = "a ARRAY<INT>, m MAP<STRING, INT>, s STRUCT<x: INT>"
    rows = [{"a": [n] * n, "m": [(str(k), k) for k in range(n)], "s": {"x": n} if n % 2 else None} for n in range(6)]
    rows[3] = None
    arrow_type = parse_spark_type(ddl)
    whole = pa.array(rows, arrow_type)
    encoder = JsonEncoder(arrow_type)
    expected = encoder.encode(whole).to_pylist()
    assert encoder.encode(whole[2:5]).to_pylist() == expected[2:5]
    assert encoder.encode(whole.take([5, 0, 3])).to_pylist() == [expected[5], expected[0], None]
    assert json.loads(expected[5]) == {"a": [5] * 5, "m": {str(k): k for k in range(5)}, "s": {"x": 5}}


def test_map_entries_of_slices_with_nulls_are_found():
    maps = pa.array([[("a", 1)], None, [("b", 2), ("c", 3)], []], pa.map_(pa.string(), pa.int64()))
    for rows in (maps, maps[1:], maps[1:2], maps[:0]):
        keys, items = map_entries(rows)
        expected = [pair for row in rows.to_pylist() if row for pair in row]
        assert list(zip(keys.to_pylist(), items.to_pylist(), strict=True)) == expected
        assert entry_counts(rows).to_pylist() == [len(row or []) for row in rows.to_pylist()]


def test_base64_equals_pythons():
    (text,) = texts("b BINARY", [{"b": bytes(range(256))}])
    assert base64.b64decode(json.loads(text)["b"]) == bytes(range(256))


@pytest.mark.parametrize("arrow_type", [pa.int32(), pa.binary(), pa.timestamp("us")])
def test_only_structs_maps_and_arrays_can_be_written_as_json(arrow_type):
    with pytest.raises(InvalidSchemaError, match="cannot be written as JSON"):
        JsonEncoder(arrow_type)


@pytest.mark.parametrize("arrow_type", [pa.map_(pa.int32(), pa.int32()), pa.list_(pa.duration("us"))])
def test_types_that_json_cannot_represent_are_refused(arrow_type):
    with pytest.raises(InvalidSchemaError):
        JsonEncoder(arrow_type)


def test_text_is_treated_as_json_and_checked():
    column = pa.array(['{"a":1}', None, "[1]", ' "x" '])
    assert JsonTextEncoder().encode(column) is column
    with pytest.raises(CannotSerializeError, match="not JSON") as error:
        JsonTextEncoder().encode(pa.array(["{}", None, "{", "}"]))
    assert error.value.fields["row"] == 2
