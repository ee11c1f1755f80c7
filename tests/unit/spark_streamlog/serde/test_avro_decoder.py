"""Avro values: what fastavro writes is read; anything else is corrupt, and memory is bounded."""

import json
import resource
import tracemalloc
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.avro_values import as_text, for_arrow, for_fastavro, schemas_and_values, written
from support.runs.examples import examples

from spark_streamlog.serde.avro_decoder import AvroDecoder
from spark_streamlog.serde.avro_schema import parse_avro_schema
from spark_streamlog.serde.avro_varint import varint
from spark_streamlog.serde.schema_registry import CachedRegistry, RegisteredSchema
from spark_streamlog.serde.serde_errors import SchemaRegistryError, UnknownSchemaError

RECORD = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "a", "type": "long"},
        {"name": "s", "type": ["null", "string"]},
        {"name": "l", "type": {"type": "array", "items": "string"}},
        {"name": "m", "type": {"type": "map", "values": ["null", "int", "string"]}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "x", "type": "double"},
    ],
}
ROW = {
    "a": 300,
    "s": "hé",
    "l": ["a", ""],
    "m": {"k": 5, "n": None, "t": "q"},
    "e": "B",
    "d": Decimal("-1.25"),
    "f": b"xy",
    "x": 1.5,
}


def decoder(schema, reader=None):
    node = parse_avro_schema(as_text(schema))
    return AvroDecoder(writer=node, reader=node if reader is None else parse_avro_schema(as_text(reader)))


def decode(schema, *values, reader=None):
    found = decoder(schema, reader).decode(pa.array(values, pa.binary()))
    found.column.validate(full=True)
    return found


def fault(schema, value):
    found = decode(schema, value)
    assert found.column.to_pylist() == [None]
    return found.faults[0]


@examples(100)
@given(schemas_and_values())
def test_values_written_by_fastavro_are_read(case):
    schema, rows = case
    contents = iter(written(schema, *(for_fastavro(schema, row[0]) for row in rows if row)))
    found = decode(schema, *(next(contents) if row else None for row in rows))
    assert found.faults == {}
    assert found.column.to_pylist() == [for_arrow(schema, row[0]) if row else None for row in rows]


@examples(60)
@given(schemas_and_values(), st.data())
def test_corrupt_values_do_not_affect_other_rows(case, data):
    schema, rows = case
    contents = written(schema, *(for_fastavro(schema, row[0]) for row in rows if row))
    broken = []
    for content in contents:
        noise = bytearray(content)
        for _ in range(data.draw(st.integers(0, 2)) if noise else 0):
            noise[data.draw(st.integers(0, len(noise) - 1))] = data.draw(st.integers(0, 255))
        broken.append(bytes(noise[: data.draw(st.integers(0, len(noise)))]))
    mixed = [value for pair in zip(contents, broken, strict=True) for value in pair]
    found = decode(schema, *mixed)
    assert all(row % 2 for row in found.faults)
    expected = decode(schema, *contents).column.to_pylist()
    assert found.column.to_pylist()[::2] == expected


def test_every_type_of_field_is_decoded():
    (content,) = written(RECORD, ROW)
    (row,) = decode(RECORD, content).column.to_pylist()
    assert row == {
        **ROW,
        "m": [("k", {"member0": 5, "member1": None}), ("n", None), ("t", {"member0": None, "member1": "q"})],
    }


def test_a_truncated_value_or_one_with_extra_bytes_is_corrupt():
    (content,) = written(RECORD, ROW)
    values = [content[:size] for size in range(len(content))]
    found = decode(RECORD, content, *values, content)
    assert sorted(found.faults) == list(range(1, len(values) + 1))
    assert found.column[0] == found.column[len(values) + 1]
    assert fault(RECORD, content + b"\0") == "there are 1 bytes after the end of the value"


LONG = varint(2**40)


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ("int", b"", "the data ends in the middle of the value"),
        ("int", b"\x80", "the data ends in the middle of the value"),
        ("double", b"\0" * 7, "the data ends in the middle of the value"),
        ("int", varint(2**31), "2147483648 is not between"),
        ("long", b"\x80" * 10 + b"\1", "the number has more than 10 bytes"),
        ("string", LONG, "the length is 1099511627776, and 0 bytes are left"),
        ("string", varint(-1), "the length is -1"),
        ("string", varint(1) + b"\xff", "not UTF-8"),
        ("bytes", varint(5) + b"1234", "the length is 5, and 4 bytes are left"),
        ("boolean", b"\2", "a boolean is 0 or 1, not 2"),
        (["null", "int"], b"\1", "branch -1 of a union that has 2"),
        (["null", "int"], b"\4", "branch 2 of a union that has 2"),
        (["null", "int"], b"\xff" * 9 + b"\1", "branch -9223372036854775808"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, b"\1", "symbol -1 of an enum that has 2"),
        ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, b"\4", "symbol 2 of an enum that has 2"),
        ({"type": "fixed", "name": "f", "size": 3}, b"ab", "the fixed has 3 bytes, and 2 bytes are left"),
        ({"type": "array", "items": "int"}, LONG, "the block has 1099511627776 items, and 0 bytes"),
        ({"type": "array", "items": "double"}, varint(2) + b"\0" * 15, "the block has 2 items, and 15 bytes"),
        ({"type": "array", "items": "int"}, varint(-(2**63)) + b"\0\0", "the block has 9223372036854775808 items"),
        ({"type": "array", "items": "int"}, b"\1\4\2\0", "the block does not have the size that it declares"),
        ({"type": "map", "values": "null"}, LONG + b"\0\0", "the block has 1099511627776 items"),
        ({"type": "map", "values": "null"}, b"\4\2a\2a\0", "a key of the map appears twice"),
        ({"type": "map", "values": "int"}, b"\2\2\xff\2\0", "not UTF-8"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\2\x64", "more than 2 digits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\0", "the decimal has no bytes"),
        ({"type": "long", "logicalType": "timestamp-millis"}, varint(2**62), "is not between"),
        ({"type": "long", "logicalType": "time-micros"}, varint(-1), "-1 is not between 0 and 86399999999"),
        ({"type": "long", "logicalType": "time-micros"}, varint(86_400_000_000), "is not between"),
        (RECORD, b"\2\2\2\xff", "field s: not UTF-8"),
        ({"type": "record", "name": "o", "fields": [{"name": "i", "type": RECORD}]}, b"\2\4", "field i.s: branch 2"),
        (RECORD, b"\2", "field s: the data ends in the middle of the value"),
    ],
)
def test_hostile_bytes_are_corrupt_with_a_reason(schema, value, reason):
    assert reason in fault(schema, value)


def test_blocks_with_a_declared_size_are_read():
    assert decode({"type": "array", "items": "int"}, b"\3\4\2\4\1\2\6\0").column.to_pylist() == [[1, 2, 3]]


def test_huge_declared_lengths_allocate_no_memory():
    array = {"type": "array", "items": {"type": "array", "items": "long"}}
    hostile = [
        varint(2**62),
        varint(-(2**62)) + varint(2**62),
        varint(1) + varint(2**61),
        LONG * 3,
        varint(2**62) + b"\0" * 50,
    ]
    reader = decoder(array)
    texts = decoder("string")
    tracemalloc.start()
    for _ in range(20):
        assert len(reader.decode(pa.array(hostile)).faults) == len(hostile)
        assert len(texts.decode(pa.array([LONG, varint(2**62) + b"x"])).faults) == 2
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


def test_many_corrupt_values_leave_no_rows_behind():
    (content,) = written(RECORD, ROW)
    reader = decoder(RECORD)
    values = pa.array([content[:20], content] * 500)
    reader.decode(values)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(5):
        assert len(reader.decode(values).faults) == 500
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


# -- Confluent's wire format --


class Registry:
    """The ids of a dict; 500 stands for a registry that does not answer."""

    def __init__(self, **texts):
        self.texts = {int(name[1:]): text for name, text in texts.items()}
        self.asked = []

    def schema_by_id(self, schema_id):
        self.asked.append(schema_id)
        if schema_id == 500:
            raise SchemaRegistryError("no answer")
        if schema_id not in self.texts:
            raise UnknownSchemaError(f"nothing known of {schema_id}")
        found = self.texts[schema_id]
        if isinstance(found, RegisteredSchema):
            return found
        return RegisteredSchema(schema_id=schema_id, schema_type="AVRO", text=json.dumps(found))


V1 = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
V2 = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "b", "type": "string", "default": "?"}, {"name": "a", "type": "long"}],
}


def framed(schema_id, content):
    return b"\0" + schema_id.to_bytes(4, "big") + content


def wire_decoder(registry, reader=V2):
    return AvroDecoder(reader=parse_avro_schema(as_text(reader)), registry=CachedRegistry(registry))


def test_each_value_is_read_with_the_schema_of_its_id():
    registry = Registry(_1=V1, _2=V2)
    old, new = written(V1, {"a": 5}), written(V2, {"a": 2**40, "b": "x"})
    values = pa.array([framed(1, old[0]), framed(2, new[0]), None, framed(1, old[0])])
    found = wire_decoder(registry).decode(values)
    assert found.faults == {}
    assert found.column.to_pylist() == [{"b": "?", "a": 5}, {"b": "x", "a": 2**40}, None, {"b": "?", "a": 5}]
    assert registry.asked == [1, 2]


def test_values_whose_schema_id_is_unknown_or_does_not_resolve_are_corrupt():
    registry = Registry(
        _1=V1, _3="string", _4={"type": "nope"}, _5=RegisteredSchema(schema_id=5, schema_type="PROTOBUF", text="")
    )
    content = written(V1, {"a": 5})[0]
    values = [framed(number, content) for number in (1, 2, 3, 4, 5)]
    values += [b"", b"\0\0\0\0", b"\1\0\0\0\1", b"\0\xff\xff\xff\xff", framed(1, b"")]
    found = wire_decoder(registry).decode(pa.array(values))
    assert found.column.to_pylist() == [{"b": "?", "a": 5}] + [None] * 9
    reasons = [found.faults[row] for row in range(1, 10)]
    for reason, said in zip(
        reasons,
        [
            "schema id 2: nothing known of 2",
            "schema id 3: what was written as string cannot be read as record r",
            "schema id 4: the Avro schema",
            "schema id 5: its schema is of type PROTOBUF",
            "too short for a schema id: 0 bytes",
            "too short for a schema id: 4 bytes",
            "the first byte is 1, not the magic byte 0",
            "4294967295 is not a valid schema id",
            "field a: the data ends in the middle",
        ],
        strict=True,
    ):
        assert said in reason


def test_a_registry_that_does_not_answer_fails_the_task_and_not_later_batches():
    registry = Registry(_1=V1)
    reader = wire_decoder(registry)
    good = framed(1, written(V1, {"a": 5})[0])
    with pytest.raises(SchemaRegistryError, match="no answer"):
        reader.decode(pa.array([good, framed(500, b"\0")]))
    assert reader.decode(pa.array([good])).column.to_pylist() == [{"b": "?", "a": 5}]


def test_an_id_that_is_registered_later_is_read_from_then_on():
    registry = Registry()
    now = [0.0]
    reader = AvroDecoder(reader=parse_avro_schema(as_text(V2)), registry=CachedRegistry(registry, now=lambda: now[0]))
    value = pa.array([framed(1, written(V1, {"a": 5})[0])])
    assert reader.decode(value).faults
    registry.texts[1] = V1
    now[0] = 61.0
    assert reader.decode(value).column.to_pylist() == [{"b": "?", "a": 5}]
