"""Schema evolution: what one schema wrote is read as another, as fastavro and the specification read it."""

import io
import json

import fastavro
import pyarrow as pa
import pytest
from support.builders.avro_values import as_text, written

from spark_streamlog.serde.avro_decoder import AvroDecoder
from spark_streamlog.serde.avro_schema import parse_avro_schema
from spark_streamlog.serde.serde_errors import InvalidSchemaError


def resolve(writer, reader, *rows):
    decoder = AvroDecoder(writer=parse_avro_schema(as_text(writer)), reader=parse_avro_schema(as_text(reader)))
    return decoder.decode(pa.array(written(writer, *rows)))


def record(*fields, name="r", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


E1 = {"type": "enum", "name": "ns.E", "symbols": ["A", "B", "C"]}
E2 = {"type": "enum", "name": "other.E", "symbols": ["B", "A"], "default": "A"}
SAME_AS_FASTAVRO = [
    (record(field("a", "int")), record(field("a", "long")), {"a": 5}),
    (record(field("a", "int")), record(field("a", "float")), {"a": 5}),
    (record(field("a", "long")), record(field("a", "double")), {"a": 2**40}),
    (record(field("a", "float")), record(field("a", "double")), {"a": 1.5}),
    (record(field("a", "string")), record(field("a", "bytes")), {"a": "é"}),
    (record(field("a", "bytes")), record(field("a", "string")), {"a": b"x"}),
    (
        record(field("a", "int"), field("b", "string")),
        record(field("b", "string"), field("a", "int")),
        {"a": 1, "b": "x"},
    ),
    (
        record(field("a", "int"), field("gone", {"type": "array", "items": "string"}), field("z", "int")),
        record(field("z", "int")),
        {"a": 1, "gone": ["x", "y"], "z": 3},
    ),
    (record(field("a", "int")), record(field("a", "int"), field("b", "string", default="?")), {"a": 1}),
    (record(field("a", "int")), record(field("b", "int", aliases=["a"])), {"a": 1}),
    (record(field("a", "int")), record(field("b", "int", aliases=["a"], default=9), field("a", "int")), {"a": 1}),
    (record(field("a", "int")), record(field("a", "int"), field("b", "int", aliases=["a"], default=9)), {"a": 1}),
    (record(field("a", "int")), record(field("a", ["null", "int"])), {"a": 1}),
    (record(field("a", ["null", "int"])), record(field("a", ["null", "long"])), {"a": None}),
    (record(field("a", ["null", "int"])), record(field("a", "int")), {"a": 7}),
    (
        record(field("a", {"type": "array", "items": "int"})),
        record(field("a", {"type": "array", "items": "double"})),
        {"a": [1, 2]},
    ),
    (
        record(field("a", record(field("x", "int"), name="in"))),
        record(field("a", record(field("y", "int", default=9), field("x", "int"), name="in"))),
        {"a": {"x": 1}},
    ),
]


@pytest.mark.parametrize(("writer", "reader", "row"), SAME_AS_FASTAVRO, ids=str)
def test_schema_evolution_equals_fastavros(writer, reader, row):
    found = resolve(writer, reader, row)
    (content,) = written(writer, row)
    expected = fastavro.schemaless_reader(
        io.BytesIO(content), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    )
    assert found.faults == {}
    assert found.column.to_pylist() == [expected]


@pytest.mark.parametrize(
    ("writer", "reader", "row", "expected"),
    [
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, {"k": 1}, [("k", 1)]),
        (E1, E2, "B", "B"),
        (E1, E2, "C", "A"),
        ("int", ["string", "long"], 5, {"member0": None, "member1": 5}),
        (["int", "string"], ["string", "null", "long"], 5, {"member0": None, "member1": 5}),
        (["int", "string"], ["string", "null", "long"], "x", {"member0": "x", "member1": None}),
        ("int", ["null", "int", "long"], 5, 5),
        (["int", "long"], "long", 5, 5),
        ("float", ["float", "double"], 1.5, 1.5),
        (record(field("x", "int"), name="old.R"), record(field("x", "int"), name="new.R"), {"x": 1}, {"x": 1}),
        (record(field("x", "int"), name="One"), record(field("x", "int"), name="Two"), {"x": 1}, {"x": 1}),
        (
            {"type": "fixed", "name": "a.F", "size": 2},
            {"type": "fixed", "name": "G", "aliases": ["F"], "size": 2},
            b"xy",
            b"xy",
        ),
        (
            "long",
            {"type": "long", "logicalType": "timestamp-millis"},
            0,
            pa.scalar(0, pa.timestamp("us", "UTC")).as_py(),
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1},
            b"\x0f",
            pa.scalar("1.5").cast(pa.decimal128(9, 1)).as_py(),
        ),
    ],
)
def test_schema_evolution_follows_the_specification(writer, reader, row, expected):
    content = b"\2\x0f" if isinstance(row, bytes) and len(row) == 1 else written(writer, row)[0]
    decoder = AvroDecoder(writer=parse_avro_schema(as_text(writer)), reader=parse_avro_schema(as_text(reader)))
    found = decoder.decode(pa.array([content]))
    assert found.faults == {}
    assert found.column.to_pylist() == [expected]


@pytest.mark.parametrize(
    ("writer", "reader", "row", "reason"),
    [
        (["null", "int"], "int", None, "what was written as null cannot be read as int"),
        (["int", "string"], "int", "x", "what was written as string cannot be read as int"),
        (["int", "string"], ["null", "int"], "x", "no branch of the union can read it"),
        (
            E1,
            {"type": "enum", "name": "E", "symbols": ["A"]},
            "C",
            "the symbol C does not exist in the reader's enum E",
        ),
    ],
)
def test_a_value_that_does_not_resolve_is_a_fault_of_its_row(writer, reader, row, reason):
    found = resolve(writer, reader, row)
    assert reason in found.faults[0]


@pytest.mark.parametrize(
    ("writer", "reader", "said"),
    [
        ("string", "int", "they are different types"),
        ("long", "int", "they are different types"),
        (record(field("a", "int")), record(field("b", "int")), "the field b does not exist in record r"),
        (record(field("a", "int")), "int", "they are different types"),
        (["null", "string"], "int", "what was written as string cannot be read as int"),
        ("null", "int", "they are different types"),
        ("null", ["int", "string"], "the union has no null"),
        ("string", ["null", "int"], "no branch of the union can read it"),
        (E1, {"type": "enum", "name": "F", "symbols": ["A"]}, "their names differ"),
        (E1, {"type": "enum", "name": "E", "symbols": ["X"]}, "no symbol in common"),
        (
            {"type": "fixed", "name": "f", "size": 2},
            {"type": "fixed", "name": "f", "size": 3},
            "their sizes differ: 2 and 3 bytes",
        ),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "long", "logicalType": "timestamp-micros"},
            "their logical types differ",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "their scales differ: 1 and 2",
        ),
        ("string", {"type": "bytes", "logicalType": "decimal", "precision": 4}, "can only be read from the same type"),
    ],
)
def test_schemas_that_do_not_resolve_are_refused_immediately(writer, reader, said):
    with pytest.raises(InvalidSchemaError) as error:
        AvroDecoder(writer=parse_avro_schema(as_text(writer)), reader=parse_avro_schema(as_text(reader)))
    assert said in error.value.message


def test_a_dropped_field_is_still_checked_and_not_kept():
    writer = record(field("gone", {"type": "array", "items": "string"}), field("a", "int"))
    reader = record(field("a", "int"))
    decoder = AvroDecoder(writer=parse_avro_schema(as_text(writer)), reader=parse_avro_schema(as_text(reader)))
    good = written(writer, {"gone": ["x"] * 5, "a": 1})[0]
    for _ in range(3):
        found = decoder.decode(pa.array([good, b"\2\2\xff\0\2", good]))
        assert found.column.to_pylist() == [{"a": 1}, None, {"a": 1}]
        assert found.faults == {1: "field gone: not UTF-8: invalid start byte at byte 0"}


def test_defaults_of_every_type_are_filled_in():
    defaults = [
        ("null", None, None),
        ("boolean", True, True),
        ("int", -5, -5),
        ("double", 1, 1.0),
        ("bytes", "\xff", b"\xff"),
        ("string", "é", "é"),
        ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
        ({"type": "array", "items": "int"}, [], []),
        ({"type": "map", "values": "int"}, {"k": 1}, [("k", 1)]),
        (["null", "int"], None, None),
        (["int", "null"], 3, 3),
        ({"type": "enum", "name": "De", "symbols": ["X", "Y"]}, "Y", "Y"),
        ({"type": "fixed", "name": "Df", "size": 2}, "\0\xff", b"\0\xff"),
        (record(field("p", "int"), field("q", "string", default="dq"), name="Dr"), {"p": 1}, {"p": 1, "q": "dq"}),
        ({"type": "int", "logicalType": "date"}, 0, pa.scalar(0, pa.date32()).as_py()),
    ]
    fields = [field(f"d{place}", kind, default=default) for place, (kind, default, _) in enumerate(defaults)]
    found = resolve(record(field("a", "int")), record(field("a", "int"), *fields), {"a": 1}, {"a": 2})
    assert found.faults == {}
    expected = {f"d{place}": value for place, (_, _, value) in enumerate(defaults)}
    assert found.column.to_pylist() == [{"a": 1, **expected}, {"a": 2, **expected}]


def test_the_order_of_ambiguous_branches_is_kept():
    union = json.dumps(
        ["null", {"type": "record", "name": "A", "fields": []}, {"type": "record", "name": "B", "fields": []}]
    )
    node = parse_avro_schema(union)
    found = AvroDecoder(writer=node, reader=node).decode(pa.array([b"\2", b"\4", b"\0"]))
    assert found.column.to_pylist() == [{"member0": {}, "member1": None}, {"member0": None, "member1": {}}, None]
