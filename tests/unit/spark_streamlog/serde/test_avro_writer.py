"""Which columns an Avro schema takes, as Spark 4.2.0's spark-avro says, and where we take more."""

import datetime

import pyarrow as pa
import pytest
from support.builders.avro_values import as_text

from spark_streamlog.serde.avro_encoder import AvroEncoder
from spark_streamlog.serde.avro_schema import parse_avro_schema
from spark_streamlog.serde.serde_errors import InvalidSchemaError

RECORD = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}


def write(schema, column):
    return AvroEncoder(parse_avro_schema(as_text(schema)), column.type).encode(column).to_pylist()


def struct(**columns):
    return pa.StructArray.from_arrays([pa.array(*column) for column in columns.values()], names=list(columns))


def test_fields_match_by_exact_name_or_by_name_in_any_case():
    for names in (("b", "a"), ("B", "A")):
        column = pa.StructArray.from_arrays([pa.array(["x"]), pa.array([1], pa.int32())], names=names)
        assert write(RECORD, column) == [bytes.fromhex("020278")]  # by spark-avro


def test_a_nullable_field_missing_from_the_struct_is_null():
    schema = {**RECORD, "fields": [RECORD["fields"][0], {"name": "b", "type": ["null", "string"]}]}
    assert write(schema, struct(a=([1], pa.int32()))) == [bytes.fromhex("0200")]  # by spark-avro


def test_a_timestamp_in_a_plain_long_is_in_milliseconds():
    column = pa.array([datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)], pa.timestamp("us", "UTC"))
    assert write("long", column) == [bytes.fromhex("80d08fa59863")]  # by spark-avro


def test_times_before_1970_are_floored():
    column = pa.array([-1, -1000, 0], pa.timestamp("us", "UTC"))
    assert write({"type": "long", "logicalType": "timestamp-millis"}, column) == [b"\1", b"\1", b"\0"]


@pytest.mark.parametrize(
    ("schema", "column", "expected"),
    [
        ("int", pa.array([-1], pa.int8()), b"\1"),
        ("long", pa.array([1], pa.int16()), b"\2"),
        ("double", pa.array([1.5], pa.float32()), b"\0\0\0\0\0\0\xf8?"),
        ("double", pa.array([1], pa.int32()), b"\0\0\0\0\0\0\xf0?"),
        (["null", "int", "long"], pa.array([1], pa.int32()), b"\4\2"),
        (["long", "int"], pa.array([1], pa.int64()), b"\0\2"),
        (["double", "float"], pa.array([1.5], pa.float32()), b"\0\0\0\0\0\0\0\xf8?"),
        (["null", "string"], pa.nulls(1), b"\0"),
        ("string", pa.array(["x"], pa.large_string()), b"\2x"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
            pa.array([-1], pa.decimal128(5, 0)).cast(pa.decimal128(7, 2)),
            b"\2\x9c",
        ),
    ],
)
def test_columns_that_fit_are_accepted(schema, column, expected):
    if pa.types.is_null(column.type):
        node = parse_avro_schema(as_text({"type": "record", "name": "r", "fields": [{"name": "n", "type": schema}]}))
        column = pa.StructArray.from_arrays([column], names=["n"])
        assert AvroEncoder(node, column.type).encode(column).to_pylist() == [expected]
    else:
        assert write(schema, column) == [expected]


@pytest.mark.parametrize(
    ("schema", "arrow_type", "said"),
    [
        ("int", pa.int64(), "the value of the type int64 cannot be written as int"),
        ("string", pa.int32(), "cannot be written as string"),
        ("float", pa.float64(), "cannot be written as float"),
        ("bytes", pa.string(), "cannot be written as bytes"),
        ("int", pa.date32(), "cannot be written as int"),
        ({"type": "int", "logicalType": "date"}, pa.int32(), r"cannot be written as int \(date\)"),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            pa.timestamp("us", "UTC"),
            "local-timestamp-micros",
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, pa.decimal128(6, 2), "decimal"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, pa.decimal128(5, 1), "decimal"),
        (RECORD, pa.struct([("a", pa.int32())]), "it has no field b, which is not nullable"),
        (RECORD, pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.int32())]), "the record has no field c"),
        (RECORD, pa.struct([("a", pa.string()), ("b", pa.string())]), "a of the type string cannot be written as int"),
        (RECORD, pa.struct([("A", pa.int32()), ("a", pa.int32()), ("b", pa.string())]), "the record has no field A"),
        (["int", "string"], pa.struct([("x", pa.int32())]), "a struct with the fields member0, member1"),
        (["null", "int"], pa.string(), "cannot be written as int"),
        ({"type": "map", "values": "int"}, pa.map_(pa.int32(), pa.int32()), "cannot be written as map"),
        ({"type": "array", "items": RECORD}, pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])), "element.a"),
    ],
)
def test_columns_that_do_not_fit_are_refused(schema, arrow_type, said):
    with pytest.raises(InvalidSchemaError, match=said):
        AvroEncoder(parse_avro_schema(as_text(schema)), arrow_type)
