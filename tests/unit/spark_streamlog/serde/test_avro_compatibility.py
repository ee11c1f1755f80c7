import json

import pytest
from support.files.avro_compatibility import BY_HAND, enum, field, record, recorded_pairs

from spark_streamlog.serde.avro_compatibility import incompatibility
from spark_streamlog.serde.serde_errors import InvalidSchemaError


def test_every_result_equals_that_of_javas_avro():
    pairs = recorded_pairs()
    assert len(pairs) > len(BY_HAND)
    assert {pair["is_compatible"] for pair in pairs} == {True, False}
    differing = [
        (pair, reason)
        for pair in pairs
        if ((reason := incompatibility(json.dumps(pair["reader"]), json.dumps(pair["writer"]))) is None)
        != pair["is_compatible"]
    ]
    assert differing == []


@pytest.mark.parametrize(
    ("reader", "writer", "reason"),
    [
        ("int", "string", "at the top: string cannot be read as int"),
        (record(field("a", "int"), field("b", "int")), record(field("a", "int")),
         "at b: the writer does not have the field, and it has no default"),
        (record(field("a", record(field("b", "int"), name="In"))), record(field("a", record(name="In"))),
         "at a.b: the writer does not have the field, and it has no default"),
        (record(name="A"), record(name="B"), "record B cannot be read as record A: their names differ"),
        (enum("A"), enum("A", "B", "C"), "at the top: enum E has no default and lacks B, C"),
        (["null", "int"], "string", "at the top: no branch of the union can read string"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, "at items: long cannot be read as int"),
    ],
)  # fmt: skip
def test_the_reason_names_the_place(reader, writer, reason):
    assert reason in incompatibility(json.dumps(reader), json.dumps(writer))


def test_a_primitive_type_needs_no_quotes():
    assert incompatibility("long", "int") is None


@pytest.mark.parametrize("text", ["", "{", '{"type": "record"}', '{"type": "array", "items": "Nothing"}', "[" * 5000])
def test_a_text_that_is_not_a_schema_is_refused(text):
    with pytest.raises(InvalidSchemaError, match="the Avro schema"):
        incompatibility(text, "int")


def test_an_endless_schema_is_refused():
    deep = "int"
    for _ in range(150):
        deep = {"type": "array", "items": deep}
    with pytest.raises(InvalidSchemaError, match=r"levels|wrong"):
        incompatibility(json.dumps(deep), json.dumps(deep))
