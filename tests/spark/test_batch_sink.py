"""`df.write.format("streamlog")`: rows become records, durable when save() returns."""

from datetime import UTC, datetime

import pytest
from chispa import assert_df_equality
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from support.builders.stored_records import make_topic, stored_headers, stored_records, stored_values, topics_of

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import CompressionType
from broker_core.record.partitioner import partition_for_key

KEPT_FOR_EVER = {"retention.ms": "-1"}
"""For records of long ago: retention goes by their timestamps."""


def save(frame, log_dir, **options):
    writer = frame.write.format("streamlog").mode("append")
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), value)
    writer.save(log_dir)


def refusal(frame, log_dir, **options):
    with pytest.raises(PySparkException) as caught:
        save(frame, log_dir, **options)
    return str(caught.value)


def a_frame(spark, rows, schema):
    return spark.createDataFrame(rows, schema).coalesce(1)


# -- topic --


def test_the_option_topic_applies_to_every_row(spark, log_dir):
    save(spark.range(1000).select(F.col("id").cast("string").alias("value")), log_dir, topic="t")
    assert sorted(int(value) for value in stored_values(log_dir, "t")) == list(range(1000))


def test_a_missing_topic_is_created_as_the_options_require_or_not_at_all(spark, log_dir):
    frame = a_frame(spark, [("1",)], "value string")
    message = refusal(frame, log_dir, topic="t", topic__create=False)
    assert "[STREAMLOG_TOPIC_NOT_CREATED] Topic 't' does not exist, and topic.create is false" in message
    assert topics_of(log_dir) == {}
    save(frame, log_dir, topic="t", topic__partitions=2, topic__config__retention__ms=-1)
    with open_embedded(log_dir) as cluster:
        made = cluster.describe_topics(["t"])["t"]
    assert (made.partition_count, made.configs) == (2, {"retention.ms": "-1"})
    save(frame, log_dir, topic="t", topic__create=False)
    assert stored_values(log_dir, "t") == [b"1", b"1"]


def test_the_column_topic_determines_the_topic_of_each_row(spark, log_dir):
    save(a_frame(spark, [("a", "1"), ("b", "2"), ("a", "3")], "topic string, value string"), log_dir)
    assert stored_values(log_dir, "a") == [b"1", b"3"]
    assert stored_values(log_dir, "b") == [b"2"]


def test_the_option_topic_takes_precedence_over_the_column(spark, log_dir):
    rows = [("a", "1"), (None, "2")]
    save(a_frame(spark, rows, "topic string, value string"), log_dir, topic="t")
    assert stored_values(log_dir, "t") == [b"1", b"2"]
    assert topics_of(log_dir) == {"t": 1}


def test_rows_without_a_topic_are_refused_before_the_job_runs(spark, log_dir):
    message = refusal(a_frame(spark, [("1",)], "value string"), log_dir)
    assert "STREAMLOG_INVALID_SINK_COLUMNS" in message
    assert "topic option required when no 'topic' attribute is present" in message


def test_a_null_topic_is_refused_with_the_position_of_the_row(spark, log_dir):
    rows = [("a", "1"), (None, "2")]
    message = refusal(a_frame(spark, rows, "topic string, value string"), log_dir)
    assert "KAFKA_NULL_TOPIC_IN_DATA" in message
    assert "row 1 (counted from 0) of task 0" in message
    assert stored_values(log_dir, "a") == []


def test_a_missing_topic_is_created_with_the_given_partition_count(spark, log_dir):
    frame = spark.range(0, 100, 1, 8).select(F.col("id").cast("string").alias("value"))
    save(frame, log_dir, topic="t", topic__partitions=3)  # eight tasks race to make it
    save(frame, log_dir, topic="single")
    assert topics_of(log_dir) == {"t": 3, "single": 1}
    assert len(stored_values(log_dir, "t")) == 100


def test_an_invalid_topic_name_is_refused(spark, log_dir):
    assert "no/name" in refusal(a_frame(spark, [("1",)], "value string"), log_dir, topic="no/name")


# -- columns --


def test_every_column_becomes_part_of_the_record(spark, log_dir):
    moment = datetime(2024, 2, 29, 12, 0, 0, 123_000, tzinfo=UTC)
    rows = [(bytearray(b"k"), bytearray(b"\xff"), [("h", bytearray(b"1")), ("h", None), ("", bytearray())], moment)]
    schema = "key binary, value binary, headers array<struct<key:string,value:binary>>, timestamp timestamp"
    make_topic(log_dir, "t", configs=KEPT_FOR_EVER)
    save(a_frame(spark, rows, schema), log_dir, topic="t")
    (record,) = stored_records(log_dir, "t")
    assert (record["key"], record["value"]) == (b"k", b"\xff")
    assert record["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}, {"key": "", "value": b""}]
    assert (record["timestamp"], record["timestampType"]) == (moment, 0)


def test_text_is_written_as_utf8(spark, log_dir):
    save(a_frame(spark, [("ключ", "größe 🎈")], "key string, value string"), log_dir, topic="t")
    (record,) = stored_records(log_dir, "t")
    assert (record["key"].decode(), record["value"].decode()) == ("ключ", "größe 🎈")


def test_null_and_empty_values_differ(spark, log_dir):
    rows = [(None, ""), ("", None), (None, None)]
    schema = "key string, value string, headers array<struct<key:string,value:binary>>"
    save(
        a_frame(spark, [(*row, headers) for row, headers in zip(rows, ([], None, None), strict=True)], schema),
        log_dir,
        topic="t",
    )
    found = [(r["key"], r["value"], r["headers"]) for r in stored_records(log_dir, "t")]
    assert found == [(None, b"", None), (b"", None, None), (None, None, None)]


def test_without_a_timestamp_a_record_has_the_time_of_writing(spark, log_dir):
    before = datetime.now(UTC)
    frame = a_frame(spark, [("1", None), ("2", datetime(2000, 1, 1, tzinfo=UTC))], "value string, timestamp timestamp")
    save(frame, log_dir, topic="t")
    now, given = (r["timestamp"] for r in stored_records(log_dir, "t"))
    assert abs((now - before).total_seconds()) < 600
    assert given == datetime(2000, 1, 1, tzinfo=UTC)


def test_a_timestamp_is_written_correctly_in_any_session_time_zone(spark, log_dir):
    make_topic(log_dir, "t", configs=KEPT_FOR_EVER)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        save(spark.sql("select 'v' as value, timestamp_millis(1700000000123) as timestamp"), log_dir, topic="t")
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    (record,) = stored_records(log_dir, "t")
    assert round(record["timestamp"].timestamp() * 1000) == 1_700_000_000_123


def test_rows_of_a_source_can_be_written_unchanged(spark, log_dir, tmp_path):
    rows = [("k", "1", 1), ("k", "2", 0)]
    save(a_frame(spark, rows, "key string, value string, partition int"), log_dir, topic="t", topic__partitions=2)
    reader = spark.read.format("streamlog").option("subscribe", "t").option("includeHeaders", "true")
    save(reader.load(log_dir), str(tmp_path / "copy"), topic__partitions=2)
    assert_df_equality(reader.load(str(tmp_path / "copy")), reader.load(log_dir), ignore_row_order=True)
    assert [record["value"] for record in stored_records(str(tmp_path / "copy"), "t")] == [b"2", b"1"]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("id as value", "value attribute unsupported type bigint. value must be a(n) string or binary"),
        ("'v' as value, id as key", "key attribute unsupported type bigint"),
        ("'v' as value, id as partition", "partition attribute unsupported type bigint. partition must be a(n) int"),
        ("'v' as value, 'h' as headers", "headers attribute unsupported type string"),
        ("'v' as value, '2024' as timestamp", "timestamp attribute unsupported type string"),
        ("id as something", "required attribute 'value' not found"),
    ],
)
def test_a_wrong_column_is_refused_by_name_before_the_job_runs(spark, log_dir, expression, words):
    message = refusal(spark.range(1).selectExpr(*expression.split(", ")), log_dir, topic="t")
    assert "STREAMLOG_INVALID_SINK_COLUMNS" in message
    assert words in message


def test_a_null_header_key_is_refused(spark, log_dir):
    schema = "value string, headers array<struct<key:string,value:binary>>"
    assert "header key" in refusal(a_frame(spark, [("v", [(None, bytearray(b"1"))])], schema), log_dir, topic="t")


# -- partitions --


def test_keys_choose_the_same_partitions_as_kafkas_producer(spark, log_dir):
    make_topic(log_dir, "t", partition_count=5)
    save(spark.range(500).selectExpr("concat('key', id) as key", "cast(id as string) as value"), log_dir, topic="t")
    found = stored_records(log_dir, "t")
    assert len(found) == 500
    assert all(r["partition"] == partition_for_key(r["key"], 5) for r in found)


def test_the_column_partition_takes_precedence_over_the_key_unless_it_is_null(spark, log_dir):
    make_topic(log_dir, "t", partition_count=4)
    rows = [("k", "1", 3), ("k", "2", None), ("k", "3", 0)]
    save(a_frame(spark, rows, "key string, value string, partition int"), log_dir, topic="t")
    where = {r["value"]: r["partition"] for r in stored_records(log_dir, "t")}
    assert where == {b"1": 3, b"2": partition_for_key(b"k", 4), b"3": 0}


def test_a_missing_partition_is_refused_and_nothing_is_written(spark, log_dir):
    make_topic(log_dir, "t", partition_count=2)
    message = refusal(a_frame(spark, [("1", 0), ("2", 2)], "value string, partition int"), log_dir, topic="t")
    assert "has partition 2, but topic 't' has the partitions 0 to 1" in message
    assert stored_values(log_dir, "t") == []


def test_rows_of_a_partition_keep_their_order(spark, log_dir):
    frame = spark.range(0, 50_000, 1, 1).selectExpr("cast(id % 7 as string) as key", "cast(id as string) as value")
    save(frame, log_dir, topic="t", topic__partitions=3)
    last, records = {}, stored_records(log_dir, "t")
    assert len(records) == 50_000
    for record in records:
        assert last.get(record["key"], -1) < int(record["value"])
        last[record["key"]] = int(record["value"])


# -- save modes, sizes, settings --


def test_append_is_the_only_supported_save_mode(spark, log_dir):
    frame = a_frame(spark, [("1",)], "value string")
    for mode in ("overwrite", "ignore", "error"):
        with pytest.raises(PySparkException) as caught:
            frame.write.format("streamlog").option("topic", "t").mode(mode).save(log_dir)
        expected = "STREAMLOG_UNSUPPORTED_SAVE_MODE" if mode == "overwrite" else "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"
        assert expected in str(caught.value)


def test_a_record_above_the_limit_is_refused_with_size_limit_and_setting(spark, log_dir):
    make_topic(log_dir, "t", configs={"max.message.bytes": "1000"})
    message = refusal(a_frame(spark, [("small",), ("x" * 2000,)], "value string"), log_dir, topic="t")
    for words in ("STREAMLOG_RECORD_TOO_LARGE", "limit of 1000", "max.message.bytes"):
        assert words in message
    assert stored_values(log_dir, "t") == []


def test_values_of_several_megabytes_are_written_if_the_topic_allows_them(spark, log_dir):
    make_topic(log_dir, "t", configs={"max.message.bytes": "20000000"})
    frame = spark.range(0, 6, 1, 1).selectExpr("repeat(cast(id as string), 5000000) as value")
    save(frame, log_dir, topic="t")
    assert [(len(v), v[:1]) for v in stored_values(log_dir, "t")] == [(5_000_000, b"%d" % n) for n in range(6)]


@pytest.mark.parametrize(
    "codec", ["zstd", *(pytest.param(each, marks=pytest.mark.long) for each in ("gzip", "snappy", "lz4"))]
)
def test_batches_are_compressed_with_the_given_codec(spark, log_dir, codec):
    frame = spark.range(0, 5000, 1, 1).selectExpr("cast(id as string) as value")
    save(frame, log_dir, topic="t", kafka__compression__type=codec)
    assert {h.compression_type for h in stored_headers(log_dir, "t")} == {CompressionType[codec.upper()]}
    assert stored_values(log_dir, "t") == [b"%d" % number for number in range(5000)]


def test_each_task_is_an_idempotent_producer(spark, log_dir):
    save(
        spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) as value"),
        log_dir,
        topic="t",
        kafka__batch__size=1000,
    )
    sequences = {}
    for header in stored_headers(log_dir, "t"):
        assert header.producer_id >= 0
        assert header.base_sequence == sequences.get(header.producer_id, 0)
        sequences[header.producer_id] = header.base_sequence + header.record_count
    assert sorted(sequences.values()) == [500, 500]


def test_invalid_options_are_refused_together(spark, log_dir):
    frame = a_frame(spark, [("1",)], "value string")
    options = {"topic": "t", "kafka__value__serializer": "x", "kafka__acks": "7", "kafka__compresion__type": "lz4"}
    message = refusal(frame, log_dir, **options)
    assert "STREAMLOG_INVALID_OPTIONS" in message
    for words in (
        "kafka.value.serializer is not supported",
        "kafka.acks must be",
        "did you mean kafka.compression.type",
    ):
        assert words in message


def test_an_empty_dataframe_writes_nothing_and_needs_no_topic(spark, log_dir):
    save(spark.createDataFrame([], "value string"), log_dir, topic="t")
    assert topics_of(log_dir) == {}


def test_a_plan_with_many_operators_is_written(spark, log_dir):
    numbers = spark.range(100)
    frame = (
        numbers.join(numbers.withColumnRenamed("id", "other"), F.col("id") == F.col("other"))
        .groupBy((F.col("id") % 10).alias("digit"))
        .agg(F.count("*").alias("n"))
        .select(F.col("digit").cast("string").alias("key"), F.to_json(F.struct("digit", "n")).alias("value"))
    )
    save(frame, log_dir, topic="t")
    assert {(r["key"], r["value"]) for r in stored_records(log_dir, "t")} == {
        (b"%d" % digit, b'{"digit":%d,"n":10}' % digit) for digit in range(10)
    }
