import io
from decimal import Context, Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.builders.avro_values import as_text, written

from spark_streamlog.serde.avro_leaf_writer import leaf_writer
from spark_streamlog.serde.avro_schema import parse_avro_schema
from spark_streamlog.serde.encoded_rows import Unwritable
from spark_streamlog.serde.serde_errors import InvalidSchemaError


def write(schema, array):
    return leaf_writer(parse_avro_schema(as_text(schema)), array.type, "")(array)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**35) + 1, max_value=10**35 - 1))
@example(Decimal("-0.128"))
@example(Decimal("-0.129"))
@example(Decimal("0.127"))
@example(Decimal("0.128"))
@example(Decimal(0))
def test_decimals_are_the_shortest_twos_complement(number):
    """As Java's BigInteger.toByteArray makes them. fastavro itself writes a byte more than needed for some, as -128."""
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3}
    (content,) = write(schema, pa.array([number], pa.decimal128(38, 3)))
    unscaled = int(number.scaleb(3, Context(prec=60)))
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    shortest = unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)
    assert content == bytes([2 * len(shortest)]) + shortest
    assert fastavro.schemaless_reader(io.BytesIO(content), schema) == number
    fixed = {"type": "fixed", "name": "f", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 3}
    assert write(fixed, pa.array([number], pa.decimal128(38, 3))) == written(fixed, number)


def test_a_column_of_nulls_is_written_without_bytes():
    assert write("null", pa.nulls(2)) == [b"", b""]


def test_a_value_that_does_not_fit_is_refused_with_a_reason():
    with pytest.raises(Unwritable, match="'B', which enum e does not have"):
        write({"type": "enum", "name": "e", "symbols": ["A"]}, pa.array(["A", "B"]))
    with pytest.raises(Unwritable, match="has 3 bytes, and fixed f has 2"):
        write({"type": "fixed", "name": "f", "size": 2}, pa.array([b"abc"]))


@pytest.mark.parametrize("arrow_type", [pa.int64(), pa.string(), pa.duration("us"), pa.decimal128(5, 2), pa.date32()])
def test_types_that_do_not_fit_are_refused(arrow_type):
    with pytest.raises(InvalidSchemaError, match=r"field of the type .* cannot be written as int"):
        leaf_writer(parse_avro_schema('"int"'), arrow_type, "field")
