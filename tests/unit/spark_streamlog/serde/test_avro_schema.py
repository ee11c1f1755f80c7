"""Avro types as spark-avro maps them. The expected types were given by Spark 4.2.0 with spark-avro_2.13-4.2.0."""

import json

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_type

from spark_streamlog.serde.avro_schema import parse_avro_schema
from spark_streamlog.serde.limits import MAX_SCHEMA_DEPTH, MAX_SCHEMA_NODE_COUNT
from spark_streamlog.serde.serde_errors import InvalidSchemaError


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


def fixed(size, **more):
    return {"type": "fixed", "name": "f", "size": size, **more}


BY_SPARK_AVRO = [
    ("null", "void"), ("boolean", "boolean"), ("int", "int"), ("long", "bigint"), ("float", "float"),
    ("double", "double"), ("bytes", "binary"), ("string", "string"),
    (logical("int", "time-millis"), "int"),
    (logical("long", "time-micros"), "time(6)"),
    (logical("string", "uuid"), "string"),
    (logical("int", "date"), "date"),
    (logical("long", "timestamp-millis"), "timestamp"),
    (logical("long", "timestamp-micros"), "timestamp"),
    (logical("long", "timestamp-nanos"), "bigint"),
    (logical("long", "local-timestamp-millis"), "timestamp_ntz"),
    (logical("long", "local-timestamp-micros"), "timestamp_ntz"),
    (logical("bytes", "decimal", precision=10, scale=2), "decimal(10,2)"),
    (logical("bytes", "decimal", precision=10), "decimal(10,0)"),
    (fixed(5, logicalType="decimal", precision=10, scale=2), "decimal(10,2)"),
    (logical("bytes", "date"), "binary"),
    (logical("bytes", "xyz"), "binary"),
    (logical("bytes", "big-decimal"), "binary"),
    (fixed(12, logicalType="duration"), "binary"),
    (fixed(16, logicalType="uuid"), "binary"),
    (fixed(3), "binary"),
    ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "string"),
    ({"type": "array", "items": ["null", "int"]}, "array<int>"),
    ({"type": "map", "values": "long"}, "map<string,bigint>"),
    (["null", "string"], "string"),
    (["int", "long"], "bigint"),
    (["null", "long", "int"], "bigint"),
    (["float", "double"], "double"),
    (["string"], "string"),
    (["int", "string"], "struct<member0:int,member1:string>"),
    (["null", "int", "string"], "struct<member0:int,member1:string>"),
    (["null", "float", "double", "int"], "struct<member0:float,member1:double,member2:int>"),
    (
        {"type": "record", "name": "r", "fields": [
            {"name": "a", "type": "int"},
            {"name": "n", "type": "null"},
            {"name": "b", "type": ["null", "int", "string"]},
            {"name": "E", "type": {"type": "record", "name": "s", "fields": [{"name": "z", "type": "boolean"}]}},
        ]},
        "struct<a:int,n:void,b:struct<member0:int,member1:string>,E:struct<z:boolean>>",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "spark_type"), BY_SPARK_AVRO, ids=str)
def test_types_are_those_of_spark_avro(schema, spark_type):
    node = parse_avro_schema(json.dumps(schema))
    assert from_arrow_type(node.arrow_type).simpleString() == spark_type


def test_names_are_resolved_within_their_namespace():
    schema = {
        "type": "record", "name": "outer", "namespace": "a.b", "fields": [
            {"name": "x", "type": {"type": "enum", "name": "Color", "symbols": ["RED"]}},
            {"name": "y", "type": "Color"},
            {"name": "z", "type": {"type": "array", "items": "a.b.Color"}},
        ],
    }  # fmt: skip
    node = parse_avro_schema(json.dumps(schema))
    assert [field.node.kind for field in node.fields] == ["enum", "enum", "array"]
    assert node.fields[1].node.name == "a.b.Color"
    assert str(node.fields[1].node) == "enum a.b.Color"


def test_references_define_what_the_schema_uses():
    references = ('{"type":"enum","name":"x.E","symbols":["A"]}', '{"type":"array","items":"x.E"}')
    assert parse_avro_schema('["null","x.E"]', references).arrow_type == pa.string()
    with pytest.raises(InvalidSchemaError, match=r"uses a type that it does not define: x\.E"):
        parse_avro_schema('["null","x.E"]')


def test_a_recursive_record_is_refused_by_name():
    schema = (
        '{"type":"record","name":"a.Node","fields":[{"name":"list","type":{"type":"array","items":["null","a.Node"]}}]}'
    )
    with pytest.raises(InvalidSchemaError, match=r"the Avro record a\.Node contains itself, at list\.element"):
        parse_avro_schema(schema)


@pytest.mark.parametrize(
    "item",
    ["null", fixed(0), {"type": "record", "name": "e", "fields": []},
     {"type": "record", "name": "e", "fields": [{"name": "n", "type": "null"}]}],
)  # fmt: skip
def test_arrays_of_items_without_bytes_are_refused(item):
    with pytest.raises(InvalidSchemaError, match="take no bytes"):
        parse_avro_schema(json.dumps({"type": "array", "items": item}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("5", "invalid"),
        ('"nope"', "does not define: nope"),
        ("{}", "invalid"),
        ("[]", "no branch except null"),
        ('["null"]', "no branch except null"),
        ('[["int"]]', "directly contains another"),
        ('["int","int"]', "'int' twice"),
        ('[{"type":"fixed","name":"f","size":1},"f"]', "'f' twice"),
        ('{"type":"map"}', "invalid"),
        ('{"type":"array","items":5}', "invalid"),
        ('{"type":"enum","name":"e","symbols":["A","A"]}', "unique"),
        ('{"type":"enum","name":"e","symbols":"AB"}', "no list of symbols"),
        ('{"type":"fixed","name":"f"}', "invalid"),
        ('{"type":"fixed","name":"f","size":-1}', "has the size -1"),
        ('{"type":"record","name":"r","fields":5}', "invalid"),
        ('{"type":"record","fields":[]}', "invalid"),
        ('{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}', "'a' twice"),
        ('{"type":"record","name":"r","fields":[{"name":"a","type":"int","default":"x"}]}', "Default value"),
        ('{"type":"bytes","logicalType":"decimal","precision":50,"scale":2}', "at most 38 digits"),
        ('{"type":"bytes","logicalType":"decimal"}', "does not exist in Spark"),
        ('{"type":"fixed","name":"f","size":2,"logicalType":"decimal","precision":10}', "doesn't fit"),
    ],
)
def test_the_error_says_what_is_wrong(text, said):
    with pytest.raises(InvalidSchemaError) as error:
        parse_avro_schema(text)
    assert said in error.value.message


def test_a_bare_name_of_a_primitive_is_a_schema():
    assert parse_avro_schema(" string ").arrow_type == parse_avro_schema('"string"').arrow_type == pa.string()


def test_the_depth_of_a_schema_is_bounded():
    def nested(depth):
        return '{"type":"array","items":' * depth + '"int"' + "}" * depth

    parse_avro_schema(nested(MAX_SCHEMA_DEPTH))
    for depth in (MAX_SCHEMA_DEPTH + 1, 900, 100_000):
        with pytest.raises(InvalidSchemaError):
            parse_avro_schema(nested(depth))


def test_the_expanded_size_of_a_schema_is_bounded():
    definition = '{"type":"record","name":"r0","fields":[{"name":"x","type":"int"}]}'
    references = [definition]
    for level in range(1, 40):
        fields = ",".join(f'{{"name":"{name}","type":"r{level - 1}"}}' for name in "ab")
        references.append(f'{{"type":"record","name":"r{level}","fields":[{fields}]}}')
    parse_avro_schema('"r5"', tuple(references))
    with pytest.raises(InvalidSchemaError, match=str(MAX_SCHEMA_NODE_COUNT)):
        parse_avro_schema('"r39"', tuple(references))
