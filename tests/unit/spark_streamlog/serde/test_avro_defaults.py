import pytest
from support.builders.avro_values import as_text, written

from spark_streamlog.serde.avro_defaults import default_bytes
from spark_streamlog.serde.avro_schema import parse_avro_schema
from spark_streamlog.serde.serde_errors import InvalidSchemaError

RECORD = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string", "default": "q"}],
}


@pytest.mark.parametrize(
    ("schema", "default", "value"),
    [
        ("null", None, None), ("boolean", False, False), ("int", -1, -1), ("long", 2**62, 2**62), ("float", 0.5, 0.5),
        ("double", 1, 1.0), ("string", "é", "é"), ("bytes", "\xff\0", b"\xff\0"),
        ({"type": "fixed", "name": "f", "size": 2}, "ab", b"ab"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "B"),
        ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
        ({"type": "map", "values": "string"}, {"k": "v"}, {"k": "v"}),
        (["null", "int"], None, None), (["string", "int"], "x", "x"), (["null", "int"], 5, 5),
        (RECORD, {"a": 1}, {"a": 1, "b": "q"}),
    ],
)  # fmt: skip
def test_default_bytes_equal_what_fastavro_writes(schema, default, value):
    assert default_bytes(parse_avro_schema(as_text(schema)), default) == written(schema, value)[0]


@pytest.mark.parametrize(
    ("schema", "default"),
    [
        ("null", 0), ("boolean", 1), ("int", 2**31), ("int", True), ("int", 1.5), ("long", 2**63), ("float", "x"),
        ("double", True), ("string", 5), ("bytes", "€"), ("bytes", 5), ({"type": "fixed", "name": "f", "size": 2}, "a"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, "B"), ({"type": "array", "items": "int"}, {}),
        ({"type": "map", "values": "int"}, []), (["null", "int"], "x"), (RECORD, {"b": "x"}), (RECORD, None),
    ],
)  # fmt: skip
def test_a_default_of_another_type_is_refused(schema, default):
    with pytest.raises(InvalidSchemaError, match="the default"):
        default_bytes(parse_avro_schema(as_text(schema)), default)
