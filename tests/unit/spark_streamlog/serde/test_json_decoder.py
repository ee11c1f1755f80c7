"""Bulk reading against its slow twin, on healthy, corrupt and cunning texts."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs.examples import examples

from spark_streamlog.serde import json_decoder
from spark_streamlog.serde.decoded_values import Unreadable, decode_one_by_one
from spark_streamlog.serde.json_decoder import JsonDecoder, JsonTextDecoder
from spark_streamlog.serde.json_value import check_json, converter, parse_json
from spark_streamlog.serde.spark_type_text import parse_spark_type

SCHEMA = parse_spark_type(
    "a INT, b STRING, c DOUBLE, d DATE, t TIMESTAMP, n STRUCT<x: BIGINT, y: ARRAY<STRING>>, e DECIMAL(10,2), f BOOLEAN"
)
GOOD = (
    b'{"a":1,"b":"x","c":1.5,"d":"2024-02-29","t":"2024-02-29T12:00:00Z","n":{"x":5,"y":["a",null]},"e":1.25,"f":true}'
)
CUNNING = [
    b'{"a":1},"w":{"b":2}', b'{"a":1}}{"v":{"a":2}', b'{"a":1,', b'"b":"x"}', b'{"a":1}{"a":2}', b'{"a":1}\n{"a":2}',
    b'{"a":\n1}', b'{"b":"\n"}', b'{"b":"x', b'y"}', b'{"a":1,"a":2}', b'null,"w":1', b'{"q":{"r":1},"a":2}',
    b'{"q":NaN}', b'{"b":"NaN"}', b'{"c":NaN}', b'{"c":"NaN"}', b'{"c":Infinity}', b'{"c":1e39}', b'{"c":-0}', b"5",
    b'{"q":1}//', b"/**/{}", b"{'a':1}", b'{"a":01}', b'{"a":+1}', b'{"a":1.}', b'{"b":"\\x"}', b'{"b":"\\ud800"}',
    b"\x00", b'{"a":1}\x00', b"\xef\xbb\xbf{}", b'{"q":[1,{"z":2}],"a":{}}', b'{"q":[]],"w":[{}', b'{"d":"20240229"}',
    b'{"d":"2024-02-29T00:00:00"}', b'{"t":"2024-02-29"}', b'{"t":"2024-02-29T10"}', b'{"t":"2024-02-29 10:00:00.1"}',
    b'{"t":"2024-02-29T10:00:00.1234567Z"}', b'{"t":"2024-02-29T10:00:00+0545"}', b'{"e":"1.250"}', b'{"e":1.255}',
    b'{"e":"+1"}', b'{"e":".5"}', b'{"e":"1e1"}', b'{"e":123456789}', b'{"a":1e0}', b'{"a":-0}', b'{"f":"true"}',
    b"[]", b"{}", b"null", b" ", b"", None,
]  # fmt: skip


def by_twin(values, arrow_type=SCHEMA):
    convert = converter(arrow_type)
    return decode_one_by_one(pa.array(values, pa.binary()), arrow_type, lambda value: convert(parse_json(value)))


def check_against_twin(values):
    found, expected = JsonDecoder(SCHEMA).decode(pa.array(values, pa.binary())), by_twin(values)
    assert found.column.type == SCHEMA
    assert found.faults == expected.faults
    # As texts: NaN is not equal to itself, and -0.0 is to 0.0.
    assert repr(found.column.to_pylist()) == repr(expected.column.to_pylist())


def test_a_valid_batch_is_read_in_bulk(monkeypatch):
    monkeypatch.setattr(JsonDecoder, "_one", None)
    found = JsonDecoder(SCHEMA).decode(pa.array([GOOD, None, b"null", b'{"a":null,"zz":[{}]}'] * 100))
    assert found.column.equals(by_twin([GOOD, None, b"null", b"{}"] * 100).column)


@pytest.mark.parametrize("value", CUNNING, ids=repr)
def test_each_hostile_text_is_decided_as_by_the_slow_twin(value):
    check_against_twin([value])


def test_hostile_texts_do_not_affect_other_rows():
    values = [GOOD] * 3000
    for place, value in enumerate(CUNNING):
        values[place * 50 + 7] = value
    check_against_twin(values)
    check_against_twin([GOOD, *CUNNING, *reversed(CUNNING)])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5)
    | st.sampled_from(["2024-02-29", "2024-02-29T12:00:00Z", "NaN", "1.5", "}", "],["]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["a", "b", "c", "d", "t", "n", "x", "y", "e", "f", "q"]), inner, max_size=5),
    max_leaves=8,
)  # fmt: skip


def without_infinity(document):
    return json.dumps(document).replace("Infinity", "1e400").encode()


@examples(40)
@given(st.lists(JSON.map(without_infinity) | st.sampled_from([GOOD, *CUNNING]) | st.binary(max_size=8), max_size=12))
def test_the_bulk_reader_and_the_slow_twin_agree(values):
    check_against_twin(values)


@examples(40)
@given(st.lists(JSON.map(without_infinity) | st.sampled_from(CUNNING) | st.binary(max_size=8), max_size=12))
def test_texts_without_a_schema_are_decided_as_by_the_slow_twin(values):
    found = JsonTextDecoder().decode(pa.array(values, pa.binary()))
    for row, value in enumerate(values):
        try:
            expected = None if value is None else check_json(value)
            assert row not in found.faults
        except Unreadable as error:
            expected = None
            assert found.faults[row] == str(error)
        assert found.column[row].as_py() == expected


def test_a_document_split_over_two_values_is_always_detected():
    text = b'{"a":1,"n":{"x":2,"y":["p","q"]},"q":{"r":[1,2]}}'
    for place in range(1, len(text)):
        check_against_twin([text[:place], text[place:], GOOD])


@pytest.mark.parametrize(
    ("ddl", "value", "expected"),
    [
        ("map<string,int>", b'{"k":1}', [("k", 1)]),
        ("a BINARY", b'{"a":"/w=="}', {"a": b"\xff"}),
        ("a TIMESTAMP_NTZ, b INT", b'{"b":1}', {"a": None, "b": 1}),
        ("array<int>", b"[1,2]", [1, 2]),
        ("bigint", b"7", 7),
        ("string", b'"a,b"', "a,b"),
    ],
)
def test_types_that_only_the_slow_twin_reads_and_roots_that_are_not_objects(ddl, value, expected):
    found = JsonDecoder(parse_spark_type(ddl)).decode(pa.array([value, b"{", None]))
    assert found.column.to_pylist() == [expected, None, None]
    assert list(found.faults) == [1]


def test_deep_nesting_neither_crashes_nor_is_slow():
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}"), (b"[[],", b"]")):
        for depth in (63, 65, 100_000):
            value = b'{"q":' + opening * depth + b"1" + closing * depth + b',"b":"x"}'
            JsonDecoder(SCHEMA).decode(pa.array([value]))
            JsonTextDecoder().decode(pa.array([value]))


def test_a_slice_of_a_column_is_read_correctly():
    values = pa.array([b"{", GOOD, GOOD, b"}"])[1:3]
    assert JsonDecoder(SCHEMA).decode(values).column.equals(by_twin([GOOD, GOOD]).column)


def test_no_values_give_an_empty_column():
    assert JsonDecoder(SCHEMA).decode(pa.array([], pa.binary())).column.type == SCHEMA
    assert len(JsonTextDecoder().decode(pa.array([], pa.binary())).column) == 0


def test_every_value_is_wrapped_on_a_line_of_its_own():
    assert json_decoder._adds_members(pa.array(['{"a":{}},"w":{}']))
    assert not json_decoder._adds_members(pa.array(['{"a":{"x":[{},{}]},"w":"},\\"q\\":"}', '"a,b"', "[1,2]", "5"]))
