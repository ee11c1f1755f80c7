import pytest
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import BinaryType, DoubleType, IntegerType, LongType, StringType, StructField
from pyspark.sql.types import TimestampType as SparkTimestampType

from spark_streamlog.rows.kafka_schema import arrow_schema
from spark_streamlog.serde.format_settings import CorruptMode, FormatKind, FormatSettings, RecordFormats

KEY, VALUE = StructField("key", BinaryType()), StructField("value", BinaryType())
REST = [
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", SparkTimestampType()),
    StructField("timestampType", IntegerType()),
]
HEADERS = "array<struct<key:string,value:binary>>"
JSON = FormatSettings(kind=FormatKind.JSON, schema_text="a INT, b ARRAY<STRUCT<c: TIMESTAMP, d: MAP<STRING, DATE>>>")
STRICT_DOUBLE = FormatSettings(kind=FormatKind.DOUBLE, mode=CorruptMode.FAIL_FAST)


def spark_schema(**given):
    schema = arrow_schema(**given)
    found = from_arrow_schema(schema)
    # Spark refuses batches that differ from what it makes of the schema.
    assert to_arrow_schema(found, timezone="UTC").equals(schema)
    return found


@pytest.mark.parametrize("include_headers", [False, True])
def test_the_schema_equals_that_of_sparks_kafka_source(include_headers):
    found = spark_schema(include_headers=include_headers)
    assert found.fields[:7] == [KEY, VALUE, *REST]
    assert [(f.name, f.dataType.simpleString()) for f in found.fields[7:]] == [("headers", HEADERS)] * include_headers


def test_a_permissive_format_changes_its_column_and_adds_the_column_corrupt():
    found = spark_schema(include_headers=True, formats=RecordFormats(key=STRICT_DOUBLE, value=JSON))
    assert found["key"].dataType == DoubleType()
    assert found["value"].dataType.simpleString() == "struct<a:int,b:array<struct<c:timestamp,d:map<string,date>>>>"
    assert found.names == ["key", "value", *(f.name for f in REST), "headers", "_corrupt"]
    assert found["_corrupt"].dataType == StringType()


def test_without_a_permissive_format_there_is_no_column_corrupt():
    found = spark_schema(include_headers=False, formats=RecordFormats(key=STRICT_DOUBLE))
    assert found.fields == [StructField("key", DoubleType()), VALUE, *REST]
