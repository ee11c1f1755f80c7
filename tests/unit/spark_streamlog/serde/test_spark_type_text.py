"""Spark's DDL and JSON schemas, compared with what PySpark's own classes say."""

import pyarrow as pa
import pytest
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from spark_streamlog.serde.limits import MAX_SCHEMA_DEPTH
from spark_streamlog.serde.serde_errors import InvalidSchemaError
from spark_streamlog.serde.spark_type_text import parse_spark_type

EVERYTHING = T.StructType(
    [
        T.StructField("b", T.BooleanType()),
        T.StructField("t", T.ByteType()),
        T.StructField("s", T.ShortType()),
        T.StructField("i", T.IntegerType()),
        T.StructField("l", T.LongType()),
        T.StructField("f", T.FloatType()),
        T.StructField("d", T.DoubleType()),
        T.StructField("st", T.StringType()),
        T.StructField("bi", T.BinaryType()),
        T.StructField("da", T.DateType()),
        T.StructField("ts", T.TimestampType()),
        T.StructField("ntz", T.TimestampNTZType()),
        T.StructField("de", T.DecimalType(20, 3)),
        T.StructField("a", T.ArrayType(T.ArrayType(T.LongType()))),
        T.StructField("m", T.MapType(T.StringType(), T.StructType([T.StructField("x y`z", T.IntegerType())]))),
    ]
)
ARROW = to_arrow_schema(T.StructType([T.StructField("v", EVERYTHING)]), timezone="UTC").field("v").type
DDL = (
    "b BOOLEAN, t TINYINT, s smallint, i INT NOT NULL, l BIGINT COMMENT 'a, b', f FLOAT, d DOUBLE, st STRING, "
    "bi BINARY, da DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ, de DECIMAL(20, 3), a ARRAY<ARRAY<BIGINT>>, "
    "m MAP<STRING, STRUCT<`x y``z`: INT>>"
)


def test_ddl_and_json_give_the_arrow_type_that_spark_uses():
    assert parse_spark_type(DDL) == ARROW
    assert parse_spark_type(EVERYTHING.json()) == ARROW
    assert parse_spark_type(EVERYTHING.simpleString().replace("x y`z", "`x y``z`")) == ARROW


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bigint", pa.int64()),
        ("  long ", pa.int64()),
        ("decimal", pa.decimal128(10, 0)),
        ("dec(5)", pa.decimal128(5, 0)),
        ("numeric(38,38)", pa.decimal128(38, 38)),
        ("array<int>", pa.list_(pa.field("element", pa.int32()))),
        ("struct<a:int>", pa.struct([("a", pa.int32())])),
        ("a: int", pa.struct([("a", pa.int32())])),
        ("map map<string,int>", pa.struct([("map", pa.map_(pa.string(), pa.int32()))])),
        ("timestamp_ltz", pa.timestamp("us", "UTC")),
    ],
)
def test_a_text_is_a_single_type_or_columns(text, expected):
    assert parse_spark_type(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the schema is empty"),
        ("a", "'a' is not a known type"),
        ("a INT,", "ends where a column's name was expected"),
        ("a INT b", "'b' where a comma or an end"),
        ("a INT, a STRING", "names 'a' twice"),
        ("a VARCHAR(5)", "'varchar' is not a known type"),
        ("array<int", "ends where > was expected"),
        ("array<int>>", "has '>' after its end"),
        ("a INT $", "cannot be understood at '$'"),
        ("decimal(39,0)", "does not exist in Spark"),
        ("decimal(5,6)", "does not exist in Spark"),
        ("decimal(x)", "'x' where a number"),
        ("a INT NOT INT", "'INT' where 'null' was expected"),
        ("{", "not JSON"),
        ('{"type":"struct"}', "not the JSON of a Spark schema"),
        ('{"type":"udt"}', "the type 'udt' is not supported"),
        ("{}", "not the JSON of a Spark schema"),
        ('{"type":"array","elementType":"void"}', "'void' is not a known type"),
    ],
)
def test_the_error_says_what_is_wrong(text, said):
    with pytest.raises(InvalidSchemaError) as error:
        parse_spark_type(text)
    assert said in error.value.message


def test_the_depth_of_a_type_is_bounded():
    def nested(depth):
        return "array<" * depth + "int" + ">" * depth

    parse_spark_type(nested(MAX_SCHEMA_DEPTH))
    for depth in (MAX_SCHEMA_DEPTH + 1, 50_000):
        with pytest.raises(InvalidSchemaError, match=r"more than \d+ levels"):
            parse_spark_type(nested(depth))
    with pytest.raises(InvalidSchemaError):
        parse_spark_type('{"type":"array","elementType":' * 50_000)
