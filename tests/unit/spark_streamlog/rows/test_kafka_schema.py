import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructField, StructType
from pyspark.sql.types import TimestampType as SparkTimestampType

from spark_streamlog.rows.kafka_schema import arrow_schema, schema_ddl

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
COLUMNS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", SparkTimestampType()),
    StructField("timestampType", IntegerType()),
]


@pytest.mark.parametrize(
    ("include_headers", "fields"), [(False, COLUMNS), (True, [*COLUMNS, StructField("headers", HEADERS)])]
)
def test_it_is_the_schema_of_sparks_kafka_source(include_headers, fields):
    spark_schema = StructType(fields)
    assert arrow_schema(include_headers=include_headers).equals(to_arrow_schema(spark_schema, timezone="UTC"))
    simple = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in fields)
    assert schema_ddl(include_headers=include_headers) == simple
