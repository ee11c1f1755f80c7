"""Columns to Avro: fastavro reads what is written, and finds the very bytes that it would have written."""

import io

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from support.builders.avro_values import as_text, for_arrow, for_fastavro, schemas_and_values, written
from support.runs.examples import examples

from spark_streamlog.serde.avro_decoder import AvroDecoder
from spark_streamlog.serde.avro_encoder import AvroEncoder
from spark_streamlog.serde.avro_schema import parse_avro_schema
from spark_streamlog.serde.serde_errors import CannotSerializeError


def encoder(schema, arrow_type=None, **more):
    node = parse_avro_schema(as_text(schema))
    return AvroEncoder(node, node.arrow_type if arrow_type is None else arrow_type, **more)


@examples(100)
@given(schemas_and_values())
def test_written_values_are_read_back(case):
    schema, rows = case
    node = parse_avro_schema(as_text(schema))
    if "null" in (schema, *(schema if isinstance(schema, list) else [])):
        rows = [row for row in rows if row and for_arrow(schema, row[0]) is not None]
    column = pa.array([for_arrow(schema, row[0]) if row else None for row in rows], node.arrow_type)
    values = AvroEncoder(node, node.arrow_type).encode(column)
    assert values.null_count == column.null_count
    assert AvroDecoder(writer=node, reader=node).decode(values).column.to_pylist() == column.to_pylist()
    for row, value in zip(rows, values.to_pylist(), strict=True):
        if row and not has_number_union(schema):
            assert value == written(schema, for_fastavro(schema, row[0]))[0]


def has_number_union(schema):
    """Where one column stands for two branches the wider one is written, whatever it was read from."""
    if isinstance(schema, list):
        kinds = {branch for branch in schema if isinstance(branch, str)} - {"null"}
        return kinds in ({"int", "long"}, {"float", "double"}) or any(map(has_number_union, schema))
    if isinstance(schema, str):
        return False
    inside = [schema.get("items", "int"), schema.get("values", "int"), *(f["type"] for f in schema.get("fields", ()))]
    return any(map(has_number_union, inside))


def test_slices_with_nulls_are_written_correctly():
    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "a", "type": ["null", {"type": "array", "items": ["string", "null"]}]},
            {"name": "m", "type": ["null", {"type": "map", "values": "long"}]},
            {"name": "s", "type": ["null", {"type": "record", "name": "s", "fields": [{"name": "x", "type": "int"}]}]},
            {"name": "u", "type": ["null", "int", "string"]},
        ],
    }
    rows = [
        {
            "a": ["x", None] * n or None,
            "m": {"k": n} if n % 2 else None,
            "s": {"x": n} if n % 3 else None,
            "u": n if n % 2 else str(n),
        }
        for n in range(7)
    ]
    expected = written(schema, *rows)
    columns = [
        {
            **row,
            "m": list(row["m"].items()) if row["m"] else None,
            "u": {"member0": row["u"], "member1": None}
            if isinstance(row["u"], int)
            else {"member0": None, "member1": row["u"]},
        }
        for row in rows
    ]
    node = parse_avro_schema(as_text(schema))
    whole = pa.array([None, *columns], node.arrow_type)
    write = AvroEncoder(node, node.arrow_type).encode
    assert write(whole).to_pylist() == [None, *expected]
    assert write(whole[3:6]).to_pylist() == expected[2:5]
    assert write(whole.take([7, 0, 1])).to_pylist() == [expected[6], None, expected[0]]


def test_each_value_is_prefixed_with_the_schema_id():
    assert encoder("int", schema_id=258).encode(pa.array([5, None], pa.int32())).to_pylist() == [b"\0\0\0\1\2\n", None]


@pytest.mark.parametrize(
    ("schema", "column", "reason"),
    [
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.array(["A", "A", "B"]), "the value is 'B', which enum e"),
        ({"type": "fixed", "name": "f", "size": 2}, pa.array([b"ab", b"ab", b"a"]), "has 1 bytes, and fixed f has 2"),
        ({"type": "array", "items": "int"}, pa.array([[1], [], [None]], pa.list_(pa.int32())), "element is null"),
        (
            {"type": "map", "values": {"type": "map", "values": "int"}},
            pa.array([[], [], [("k", None)]], pa.map_(pa.string(), pa.map_(pa.string(), pa.int32()))),
            "value is null",
        ),
        (
            {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]},
            pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int32())])),
            "a is null, and its Avro type is not",
        ),
        (
            ["int", "string"],
            pa.array([{"member0": 1, "member1": None}] * 2 + [{"member0": 1, "member1": "x"}]),
            "two members of a union",
        ),
        (
            ["int", "string"],
            pa.array(
                [{"member0": 1, "member1": None}, {"member0": None, "member1": "x"}, {"member0": None, "member1": None}]
            ),
            "is null",
        ),
    ],
)
def test_the_error_names_the_row_that_does_not_fit(schema, column, reason):
    if pa.types.is_struct(column.type) and "member0" in str(column.type):
        arrow_type = pa.struct([("member0", pa.int32()), ("member1", pa.string())])
        column = column.cast(arrow_type)
    with pytest.raises(CannotSerializeError) as error:
        encoder(schema, column.type).encode(column)
    assert error.value.fields["row"] == 2
    assert reason in error.value.fields["reason"]


def test_fastavro_reads_the_written_logical_types():
    import datetime
    from decimal import Decimal

    schema = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "d", "type": {"type": "int", "logicalType": "date"}},
            {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "lms", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
            {"name": "lus", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
            {"name": "t", "type": {"type": "long", "logicalType": "time-micros"}},
            {"name": "b", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3}},
            {
                "name": "f",
                "type": {"type": "fixed", "name": "f", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2},
            },
        ],
    }
    early = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=datetime.UTC)
    row = {
        "d": datetime.date(1969, 12, 31),
        "ms": early,
        "us": early.replace(microsecond=999999),
        "lms": early.replace(tzinfo=None),
        "lus": early.replace(tzinfo=None),
        "t": datetime.time(23, 59, 59, 999999),
        "b": Decimal("-99999999999999999999999999999999999.999"),
        "f": Decimal("-1234567.89"),
    }
    node = parse_avro_schema(as_text(schema))
    arrow_row = {**row, "t": (24 * 3600 * 10**6 - 1) * 1000}
    values = AvroEncoder(node, node.arrow_type).encode(pa.array([arrow_row], node.arrow_type))
    assert values.to_pylist() == written(schema, row)
    assert fastavro.schemaless_reader(io.BytesIO(values[0].as_py()), fastavro.parse_schema(schema)) == row
    back = AvroDecoder(writer=node, reader=node).decode(values).column
    assert back.equals(pa.array([arrow_row], node.arrow_type))
