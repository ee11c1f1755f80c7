import pytest
from support.builders.avro_values import as_text

from spark_streamlog.serde.avro_resolution import best_branch, check_resolves
from spark_streamlog.serde.avro_schema import parse_avro_schema
from spark_streamlog.serde.serde_errors import InvalidSchemaError

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
PROMOTED = {
    ("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"), ("float", "double"),
    ("string", "bytes"), ("bytes", "string"),
}  # fmt: skip
"""The specification, "Schema Resolution"."""


def node(schema):
    return parse_avro_schema(as_text(schema))


def record(name, **more):
    return {"type": "record", "name": name, "fields": [], **more}


def enum(name, **more):
    return {"type": "enum", "name": name, "symbols": ["A"], **more}


@pytest.mark.parametrize("writer", PRIMITIVES)
@pytest.mark.parametrize("reader", PRIMITIVES)
def test_every_pair_of_primitives_resolves_by_the_specification(writer, reader):
    if writer == reader or (writer, reader) in PROMOTED:
        check_resolves(node(writer), node(reader))
    else:
        with pytest.raises(InvalidSchemaError, match=f"what was written as {writer} cannot be read as {reader}"):
            check_resolves(node(writer), node(reader))


@pytest.mark.parametrize(
    ("writer", "reader", "fits"),
    [
        (enum("a.E"), enum("b.E"), True),
        (enum("E"), enum("F"), False),
        (enum("E"), enum("F", aliases=["E"]), True),
        (enum("a.E"), enum("F", aliases=["x.E"]), True),
        (record("A"), record("B"), True),
        (enum("E"), {"type": "fixed", "name": "E", "size": 1}, False),
        ({"type": "int", "logicalType": "date"}, "int", True),
        ("int", {"type": "int", "logicalType": "date"}, True),
        ("int", {"type": "long", "logicalType": "timestamp-millis"}, True),
        ({"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-millis"}, False),
    ],
)
def test_names_and_logical_types_must_match(writer, reader, fits):
    if fits:
        check_resolves(node(writer), node(reader))
    else:
        with pytest.raises(InvalidSchemaError):
            check_resolves(node(writer), node(reader))


@pytest.mark.parametrize(
    ("writer", "branches", "place"),
    [
        ("int", ["null", "long", "int"], 2),
        ("int", ["string", "double", "float"], 1),
        ("long", ["int", "string"], None),
        ("string", ["bytes", "string"], 1),
        ("string", ["int", "bytes"], 1),
        (record("a.R"), [record("b.R"), record("a.R")], 1),
        (record("a.R"), [record("b.Q"), record("b.R")], 1),
        (record("a.R"), [record("b.Q"), record("b.S", aliases=["a.R"])], 1),
        (record("a.R"), [record("b.Q"), record("b.S")], None),
        ({"type": "array", "items": "int"}, ["string", {"type": "array", "items": "string"}], 1),
    ],
)
def test_the_branch_is_chosen_by_type_then_name_then_promotion(writer, branches, place):
    assert best_branch(node(writer), node(branches).branches) == place
