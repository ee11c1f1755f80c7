"""Typed columns and column functions in Spark: what only Spark can show. The formats themselves: tests/unit."""

import datetime
import json
from decimal import Decimal

import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException
from pyspark.sql import Row
from pyspark.sql import functions as F
from support.builders.append_records import append_records
from support.builders.protobuf_messages import DESCRIPTOR_SET, message_class
from support.builders.stored_records import stored_records, stored_values

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.record.batch_reader import Record
from spark_streamlog.functions import (
    from_avro,
    from_int,
    from_json,
    from_protobuf,
    to_avro,
    to_json,
    to_long,
    to_protobuf,
)
from spark_streamlog.serde.file_registry import FileRegistry

NESTED = (
    "named_struct('id', id, 'at', timestamp_millis(1700000000123 + id), 'day', date'2024-02-29', "
    "'local', timestamp_ntz'2024-02-29 12:00:00.000001', 'price', cast(id + 0.25 as decimal(10,2)), "
    "'tags', array('a', null), 'counts', map('k', 1), 'inner', named_struct('x', cast(null as string)))"
)


def save(frame, log_dir, **options):
    frame.coalesce(1).write.format("streamlog").options(**options).mode("append").save(log_dir)


def load(spark, log_dir, **options):
    return spark.read.format("streamlog").options(subscribe="t", **options).load(log_dir)


@pytest.fixture
def nested(spark):
    return spark.range(3).selectExpr("cast(id as int) as key", f"{NESTED} as value")


def test_a_typed_topic_is_written_and_read_with_a_registry_in_any_time_zone(spark, nested, log_dir, tmp_path):
    given = {"keyFormat": "int", "valueFormat": "avro", "valueFormat.registry.file": str(tmp_path / "registry.json")}
    session_zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        save(nested, log_dir, topic="t", **given)
        frame = load(spark, log_dir, **given)
        assert frame.columns[:2] + frame.columns[-1:] == ["key", "value", "_corrupt"]
        found = frame.orderBy("offset").select("key", "value", "_corrupt")
        # Every field that is read may be null, also in what was written without a null.
        expected = spark.createDataFrame([(*row, None) for row in nested.collect()], found.schema)
        assert_df_equality(found, expected)
    finally:
        spark.conf.set("spark.sql.session.timeZone", session_zone)
    assert stored_records(log_dir, "t")[1]["key"] == b"\0\0\0\1"
    assert stored_values(log_dir, "t")[0].startswith(b"\0\0\0\0\1")


def test_corrupt_values_are_shown_dropped_or_fail_the_query(spark, log_dir):
    cluster = open_embedded(log_dir, create=True)
    cluster.create_topic("t", configs={"retention.ms": "-1"})
    keys_and_values = [(b"\0\0\0\1", b'{"a":1}'), (b"x", b'{"a":2}'), (None, b'{"a":"x"}'), (None, None)]
    append_records(cluster, "t", *(Record(key=k, value=v, timestamp_ms=0) for k, v in keys_and_values))
    cluster.close()
    given = {"keyFormat": "int", "valueFormat": "json", "valueFormat.schema": "a INT"}
    rows = load(spark, log_dir, **given).orderBy("offset").select("key", "value", "_corrupt").collect()
    assert rows == [
        Row(key=1, value=Row(a=1), _corrupt=None),
        Row(key=None, value=Row(a=2), _corrupt="key of t-0 at offset 1: int needs 4 bytes, and the value has 1"),
        Row(
            key=None,
            value=None,
            _corrupt="value of t-0 at offset 2: field a: expected a whole number, found the text 'x'",
        ),
        Row(key=None, value=None, _corrupt=None),
    ]
    drop = {"keyFormat.mode": "dropmalformed", "valueFormat.mode": "dropmalformed"}
    assert [row.offset for row in load(spark, log_dir, **given, **drop).select("offset").collect()] == [0, 3]
    fail = {"valueFormat.mode": "failfast"}
    with pytest.raises(PySparkException, match="topic t partition 0 at offset 2 cannot be read as json: field a"):
        load(spark, log_dir, **given, **fail).collect()


def test_a_typed_stream_converts_between_formats_with_a_registry(spark, nested, log_dir, tmp_path):
    registry = str(tmp_path / "registry.json")
    avro = {"valueFormat": "avro", "valueFormat.registry.file": registry, "keyFormat": "int"}
    save(nested.selectExpr("key", "named_struct('id', value.id) as value"), log_dir, topic="t", **avro)
    grown = nested.selectExpr("key", "named_struct('id', value.id, 'more', 'x') as value")
    with pytest.raises(
        PySparkException,
        match=r"whose level is BACKWARD.*at more: the writer does not have the field, and it has no default",
    ):
        save(grown, log_dir, topic="t", **avro)
    writer = {"type": "record", "name": "topLevelRecord", "fields": [
        {"name": "id", "type": ["long", "null"]}, {"name": "more", "type": "string", "default": "?"}]}  # fmt: skip
    save(grown, log_dir, topic="t", **avro | {"valueFormat.schema": json.dumps(writer)})
    assert [FileRegistry(registry).schema_by_id(number).schema_id for number in (1, 2)] == [1, 2]
    reader = {"type": "record", "name": "r", "fields": [
        {"name": "id", "type": "long"}, {"name": "more", "type": "string", "default": "?"}]}  # fmt: skip
    stream = (
        spark.readStream.format("streamlog")
        .options(subscribe="t", startingOffsets="earliest", **avro)
        .option("valueFormat.schema", json.dumps(reader))
        .load(log_dir)
    )
    query = (
        stream.where("_corrupt is null")
        .select("key", "value")
        .writeStream.format("streamlog")
        .options(topic="copy", keyFormat="long", valueFormat="json", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(log_dir)
    )
    query.awaitTermination()
    found = [(record["key"], record["value"].decode()) for record in stored_records(log_dir, "copy")]
    expected = [(bytes(7) + bytes([n]), f'{{"id":{n},"more":"{more}"}}') for more in "?x" for n in range(3)]
    assert sorted(found) == sorted(expected)


def test_a_null_struct_is_a_tombstone(spark, log_dir):
    frame = spark.sql("select 'k' as key, cast(null as struct<a:int>) as value")
    save(frame, log_dir, topic="t", keyFormat="string", valueFormat="json")
    assert [(r["key"], r["value"]) for r in stored_records(log_dir, "t")] == [(b"k", None)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"valueFormat": "long"},
            "value attribute unsupported type string for valueFormat=long: string cannot be written as long",
        ),
        ({"valueFormat": "protobuf"}, "valueFormat.descriptor.file is missing"),
        ({"valueFormat": "avro", "valueFormat.schema": '"int"'}, "value of the type string cannot be written as int"),
    ],
)
def test_an_invalid_column_or_option_is_refused_before_the_job_runs(spark, log_dir, options, words):
    with pytest.raises(PySparkException) as caught:
        save(spark.sql("select 'x' as value"), log_dir, topic="t", **options)
    assert words in str(caught.value)


def test_a_row_that_does_not_fit_fails_the_write_without_readable_rows(spark, log_dir):
    enum = '{"type":"enum","name":"e","symbols":["A"]}'
    with pytest.raises(PySparkException, match=r"cannot be written as avro in row 1 .*'B', which enum e"):
        save(spark.sql("select explode(array('A', 'B')) as value"), log_dir, topic="t",
             **{"valueFormat": "avro", "valueFormat.schema": enum})  # fmt: skip
    assert load_if_there(spark, log_dir) == 0


def load_if_there(spark, log_dir):
    return (
        len(stored_values(log_dir, "t")) and spark.read.format("streamlog").options(subscribe="t").load(log_dir).count()
    )


def test_a_user_defined_schema_is_also_refused_with_a_format(spark, nested, log_dir):
    save(nested.selectExpr("key", "'{}' as value"), log_dir, topic="t", keyFormat="int")
    with pytest.raises(PySparkException, match="STREAMLOG_FIXED_SCHEMA"):
        spark.read.format("streamlog").options(subscribe="t", keyFormat="int").schema("key string").load(
            log_dir
        ).collect()


def test_avro_column_functions_round_trip(spark, nested):
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": ["long", "null"]}]}
    text = json.dumps(schema)
    frame = nested.select(
        "value", to_avro("value").alias("derived"), to_avro(F.struct("value.id"), text).alias("given")
    )
    row = frame.select(from_avro("given", text).alias("v"), F.hex("given").alias("bytes")).orderBy("v.id").collect()[2]
    assert row == Row(v=Row(id=2), bytes="0004")
    broken = spark.createDataFrame([(bytearray(b"\0"),), (bytearray(b"\0\4"),), (None,)], "v binary").coalesce(1)
    permissive = broken.select(from_avro("v", text, {"mode": "PERMISSIVE"}).alias("v")).collect()
    assert permissive == [Row(v=None), Row(v=Row(id=2)), Row(v=None)]
    with pytest.raises(PySparkException, match="cannot be read as avro: field id: the data ends in the middle"):
        broken.select(from_avro(F.col("v"), text)).collect()
    evolved = {**schema, "fields": [*schema["fields"], {"name": "new", "type": "string", "default": "?"}]}
    (found,) = frame.select(from_avro("given", text, {"avroSchema": json.dumps(evolved)}).alias("v")).limit(1).collect()
    assert found.v.new == "?"


def test_protobuf_number_and_json_column_functions_round_trip(spark):
    message = message_class("house.All")(numbers=[1, 2], that="x")
    message.at.seconds = 1_700_000_000
    frame = spark.createDataFrame(
        [(bytearray(message.SerializeToString()), bytearray(b"\0\0\0\5"), '{"a":1.5}')], "p binary, i binary, j string"
    )
    read = frame.select(
        from_protobuf("p", "house.All", binaryDescriptorSet=DESCRIPTOR_SET).alias("p"),
        from_int("i").alias("i"),
        from_json("j", "a DECIMAL(5,2)").alias("j"),
    )
    row = read.collect()[0]
    assert (row.p.numbers, row.p.that, row.p.color, row.i, row.j) == ([1, 2], "x", None, 5, Row(a=Decimal("1.50")))
    assert row.p.at == datetime.datetime.fromtimestamp(1_700_000_000)
    back = read.select(
        to_protobuf("p", "All", binaryDescriptorSet=DESCRIPTOR_SET).alias("p"),
        to_long("i").alias("i"),
        to_json("j").alias("j"),
    ).collect()[0]
    assert type(message).FromString(bytes(back.p)) == message
    assert (bytes(back.i), back.j) == (b"\0" * 7 + b"\5", '{"a":1.50}')
