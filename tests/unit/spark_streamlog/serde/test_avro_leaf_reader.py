"""The bounds of Avro's leaf types: the last value that passes, and the next one."""

import pytest
from support.builders.avro_values import as_text

from spark_streamlog.serde.avro_leaf_reader import leaf_reader
from spark_streamlog.serde.avro_schema import parse_avro_schema
from spark_streamlog.serde.avro_varint import varint
from spark_streamlog.serde.decoded_values import Unreadable

DAY = 24 * 3600 * 1_000_000


def read(schema, content, reader=None):
    values = []
    writer = parse_avro_schema(as_text(schema))
    position = leaf_reader(writer, parse_avro_schema(as_text(reader or schema)), values)(b"x" + content, 1)
    assert position == len(content) + 1
    return values[0]


@pytest.mark.parametrize(
    ("schema", "lowest", "highest"),
    [
        ("int", -(2**31), 2**31 - 1),
        ({"type": "int", "logicalType": "date"}, -(2**31), 2**31 - 1),
        ({"type": "long", "logicalType": "time-micros"}, 0, DAY - 1),
        ({"type": "long", "logicalType": "timestamp-millis"}, -((2**63 - 1) // 1000), (2**63 - 1) // 1000),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, -((2**63 - 1) // 1000), (2**63 - 1) // 1000),
    ],
)
def test_whole_numbers_are_bounded(schema, lowest, highest):
    assert read(schema, varint(lowest)) == lowest
    assert read(schema, varint(highest)) == highest
    for number in (lowest - 1, highest + 1):
        with pytest.raises(Unreadable, match=f"{number} is not between {lowest} and {highest}"):
            read(schema, varint(number))


def test_a_number_must_fit_the_writers_type_too():
    assert read("int", varint(5), "long") == 5
    for reader in ("long", "double"):
        with pytest.raises(Unreadable, match="is not between"):
            read("int", varint(2**31), reader)
    assert read("long", varint(-(2**63))) == -(2**63)


def test_decimals_must_fit_their_precision():
    for kind in ({"type": "bytes"}, {"type": "fixed", "name": "f", "size": 5}):
        schema = {**kind, "logicalType": "decimal", "precision": 9}
        for number in (999_999_999, -999_999_999, 0):
            content = number.to_bytes(5, "big", signed=True)
            assert read(schema, content if "size" in kind else varint(5) + content) == number
        for number in (10**9, -(10**9)):
            content = number.to_bytes(5, "big", signed=True)
            with pytest.raises(Unreadable, match="more than 9 digits"):
                read(schema, content if "size" in kind else varint(5) + content)


def test_text_must_be_utf8_even_if_bytes_are_read_as_text():
    assert read("bytes", varint(2) + "é".encode(), "string") == "é".encode()
    for schema, reader in (("string", "string"), ("string", "bytes"), ("bytes", "string")):
        with pytest.raises(Unreadable, match="not UTF-8"):
            read(schema, varint(1) + b"\xff", reader)
    assert read("bytes", varint(1) + b"\xff") == b"\xff"


def test_a_boolean_is_0_or_1():
    assert [read("boolean", b"\0"), read("boolean", b"\1")] == [False, True]
    with pytest.raises(Unreadable, match="a boolean is 0 or 1, not 2"):
        read("boolean", b"\2")
