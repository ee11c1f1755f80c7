"""Schemas made of columns: the JSON is what Spark 4.2.0's SchemaConverters.toAvroType gave for the same types."""

import json

import pyarrow as pa
import pytest

from spark_streamlog.serde.avro_derivation import derive_schema
from spark_streamlog.serde.avro_schema import parse_avro_schema
from spark_streamlog.serde.serde_errors import InvalidSchemaError
from spark_streamlog.serde.spark_type_text import parse_spark_type

DDL = (
    "b boolean, t tinyint, s smallint, i int, l bigint, f float, d double, st string, bi binary, da date, "
    "ts timestamp, ntz timestamp_ntz, de decimal(10,2), de2 decimal(38,18), arr array<int>, m map<string,int>, "
    "n struct<x:int, y: struct<z:string>>"
)
BY_SPARK = (
    '{"type":"record","name":"Rec","namespace":"ns.x","fields":[{"name":"b","type":["boolean","null"]},{"name":"t","type"'
    ':["int","null"]},{"name":"s","type":["int","null"]},{"name":"i","type":["int","null"]},{"name":"l","type":["long","n'
    'ull"]},{"name":"f","type":["float","null"]},{"name":"d","type":["double","null"]},{"name":"st","type":["string","nul'
    'l"]},{"name":"bi","type":["bytes","null"]},{"name":"da","type":[{"type":"int","logicalType":"date"},"null"]},{"name"'
    ':"ts","type":[{"type":"long","logicalType":"timestamp-micros"},"null"]},{"name":"ntz","type":[{"type":"long","logica'
    'lType":"local-timestamp-micros"},"null"]},{"name":"de","type":[{"type":"fixed","name":"fixed","namespace":"ns.x.Rec.'
    'de","size":5,"logicalType":"decimal","precision":10,"scale":2},"null"]},{"name":"de2","type":[{"type":"fixed","name"'
    ':"fixed","namespace":"ns.x.Rec.de2","size":16,"logicalType":"decimal","precision":38,"scale":18},"null"]},{"name":"a'
    'rr","type":[{"type":"array","items":["int","null"]},"null"]},{"name":"m","type":[{"type":"map","values":["int","null'
    '"]},"null"]},{"name":"n","type":[{"type":"record","name":"n","namespace":"ns.x.Rec","fields":[{"name":"x","type":["i'
    'nt","null"]},{"name":"y","type":[{"type":"record","name":"y","namespace":"ns.x.Rec.n","fields":[{"name":"z","type":['
    '"string","null"]}]},"null"]}]},"null"]}]}'
)


def test_the_derived_schema_equals_spark_avros():
    arrow_type = parse_spark_type(DDL)
    assert derive_schema(arrow_type, name="Rec", namespace="ns.x") == json.loads(BY_SPARK)
    assert parse_avro_schema(json.dumps(derive_schema(arrow_type))).kind == "record"


def test_the_outermost_record_is_named_as_in_spark_and_required_fields_are_not_nullable():
    arrow_type = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("n", pa.null())])
    assert derive_schema(arrow_type) == {
        "type": "record",
        "name": "topLevelRecord",
        "fields": [{"name": "a", "type": "int"}, {"name": "n", "type": "null"}],
    }


def test_a_column_that_is_not_a_struct_gets_a_schema():
    assert derive_schema(pa.int32()) == "int"
    assert derive_schema(pa.decimal128(3, 1))["namespace"] == "topLevelRecord"
    assert derive_schema(pa.list_(pa.string())) == {"type": "array", "items": ["string", "null"]}


def test_a_column_round_trips_through_its_derived_schema():
    arrow_type = parse_spark_type(DDL.replace("tinyint", "int").replace("smallint", "int"))
    assert parse_avro_schema(json.dumps(derive_schema(arrow_type))).arrow_type == arrow_type


@pytest.mark.parametrize("arrow_type", [pa.duration("us"), pa.map_(pa.int32(), pa.int32())])
def test_types_that_avro_cannot_represent_are_refused(arrow_type):
    with pytest.raises(InvalidSchemaError):
        derive_schema(arrow_type)
