"""`df.writeStream.format("streamlog")`: output modes append, progress is right, restarts lose nothing."""

import pytest
from chispa import assert_df_equality
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from support.builders.stored_records import make_topic, stored_records, stored_values, topics_of
from support.spark.stream_driver import forget_last_commit

from spark_streamlog.foreach_batch import write_to

SCHEMA = "number long, word string"


def stream_of(spark, source):
    return spark.readStream.schema(SCHEMA).json(source.folder)


def run(frame, log_dir, tmp_path, *, mode="append", checkpoint="checkpoint", **options):
    writer = frame.writeStream.format("streamlog").outputMode(mode)
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), value)
    query = writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True).start(log_dir)
    query.awaitTermination()
    return query


def refusal(*arguments, **options):
    with pytest.raises(StreamingQueryException) as caught:
        run(*arguments, **options)
    return str(caught.value)


def as_value(frame):
    return frame.select(F.col("number").cast("string").alias("value"))


def test_append_mode_writes_each_row_once_across_restarts(spark, log_dir, tmp_path, source):
    source((1, "a"), (2, "b"))
    run(as_value(stream_of(spark, source)), log_dir, tmp_path, topic="t")
    source((3, "a"))
    run(as_value(stream_of(spark, source)), log_dir, tmp_path, topic="t")
    assert sorted(stored_values(log_dir, "t")) == [b"1", b"2", b"3"]


def changed_counts(spark, source):
    counts = stream_of(spark, source).groupBy("word").count()
    return counts.select(F.col("word").alias("key"), F.col("count").cast("string").alias("value"))


def keys_and_values(log_dir):
    return sorted((r["key"], r["value"]) for r in stored_records(log_dir, "t"))


def test_complete_mode_appends_the_whole_result_each_time(spark, log_dir, tmp_path, source):
    for rows in ([(1, "a"), (2, "b")], [(3, "a")]):
        source(*rows)
        run(changed_counts(spark, source), log_dir, tmp_path, mode="complete", topic="t")
    assert keys_and_values(log_dir) == [(b"a", b"1"), (b"a", b"2"), (b"b", b"1"), (b"b", b"1")]


def test_update_mode_is_refused_by_spark_for_every_python_data_source(spark, log_dir, tmp_path, source):
    # Spark asks a sink written in Java whether it takes updates as appended rows, and never asks one in Python. When
    # this test fails, Spark has learned to: then update mode appends.
    source((1, "a"))
    message = refusal(changed_counts(spark, source), log_dir, tmp_path, mode="update", topic="t")
    assert "does not support Update mode" in message


def run_each(frame, write, tmp_path):
    writer = frame.writeStream.outputMode("update").foreachBatch(write)
    query = writer.option("checkpointLocation", str(tmp_path / "each")).trigger(availableNow=True).start()
    query.awaitTermination()


def test_write_to_writes_update_mode_once_even_if_a_batch_is_repeated(spark, log_dir, tmp_path, source):
    write = write_to(log_dir, topic="t", options={"topic.partitions": 2})
    for rows in ([(1, "a"), (2, "b")], [(3, "a")]):
        source(*rows)
        run_each(changed_counts(spark, source), write, tmp_path)
    forget_last_commit(tmp_path / "each")
    run_each(changed_counts(spark, source), write, tmp_path)
    assert keys_and_values(log_dir) == [(b"a", b"1"), (b"a", b"2"), (b"b", b"1")]
    assert topics_of(log_dir) == {"t": 2}


def test_one_stream_is_written_once_to_each_of_several_topics_even_if_the_batch_fails_between(
    spark, log_dir, tmp_path, source
):
    numbers, words = write_to(log_dir, topic="numbers"), write_to(log_dir, topic="words")
    failures = ["the first time"]

    def write(frame, batch_id):
        numbers(as_value(frame), batch_id)
        if failures:
            raise RuntimeError(failures.pop())
        words(frame.select(F.col("word").alias("value")), batch_id)

    source((1, "a"), (2, "b"))
    with pytest.raises(StreamingQueryException, match="the first time"):
        run_each(stream_of(spark, source), write, tmp_path)
    run_each(stream_of(spark, source), write, tmp_path)
    assert sorted(stored_values(log_dir, "numbers")) == [b"1", b"2"]
    assert sorted(stored_values(log_dir, "words")) == [b"a", b"b"]


def test_the_topic_is_that_of_the_option_or_else_of_the_column(spark, log_dir, tmp_path, source):
    source((1, "a"), (2, "b"))
    frame = stream_of(spark, source).select(F.col("word").alias("topic"), F.col("number").cast("string").alias("value"))
    run(frame, log_dir, tmp_path, checkpoint="by-column")
    run(frame, log_dir, tmp_path, checkpoint="by-option", topic="t", topic__partitions=2)
    assert topics_of(log_dir) == {"a": 1, "b": 1, "t": 2}
    assert stored_values(log_dir, "a") == [b"1"]
    assert sorted(stored_values(log_dir, "t")) == [b"1", b"2"]


def test_the_progress_counts_written_rows_and_not_read_rows(spark, log_dir, tmp_path, source):
    source(*[(number, "w") for number in range(321)])
    frame = as_value(stream_of(spark, source).where("pmod(number, 3) = 0").repartition(3))
    progress = run(frame, log_dir, tmp_path, topic="t").lastProgress
    assert (progress["numInputRows"], progress["sink"]["numOutputRows"]) == (321, 107)
    assert len(stored_values(log_dir, "t")) == 107


def test_a_stream_copies_one_topic_to_another(spark, log_dir, tmp_path, source):
    make_topic(log_dir, "in", partition_count=3)
    source(*[(number, "w") for number in range(1000)])
    run(as_value(stream_of(spark, source)), log_dir, tmp_path, topic="in", checkpoint="first")
    frame = (
        spark.readStream.format("streamlog")
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 300)
        .load(log_dir)
        .select("key", "value")
    )
    query = run(frame, log_dir, tmp_path, topic="out", checkpoint="second")
    found, expected = (
        spark.read.format("streamlog").option("subscribe", topic).load(log_dir).select("key", "value")
        for topic in ("out", "in")
    )
    assert_df_equality(found, expected, ignore_row_order=True)
    assert found.count() == 1000
    assert sum(p["sink"]["numOutputRows"] for p in query.recentProgress if p["numInputRows"]) == 1000


def test_with_at_least_once_a_repeated_batch_writes_its_rows_again(spark, log_dir, tmp_path, source):
    source((1, "a"))
    for _ in range(2):
        run(as_value(stream_of(spark, source)), log_dir, tmp_path, topic="t", delivery="at-least-once")
        forget_last_commit(tmp_path / "checkpoint")
    assert stored_values(log_dir, "t") == [b"1", b"1"]


def test_a_null_topic_fails_the_query_with_the_position_of_the_row(spark, log_dir, tmp_path, source):
    source((1, None))
    frame = stream_of(spark, source).select(F.col("word").alias("topic"), F.col("number").cast("string").alias("value"))
    message = refusal(frame, log_dir, tmp_path)
    assert "KAFKA_NULL_TOPIC_IN_DATA" in message
    assert "row 0" in message


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["number as value"], "value attribute unsupported type bigint"),
        pytest.param(["word as key"], "required attribute 'value' not found", marks=pytest.mark.long),
        pytest.param(
            ["word as value", "number as key"], "key attribute unsupported type bigint", marks=pytest.mark.long
        ),
    ],
)
def test_invalid_columns_fail_the_query_by_name(spark, log_dir, tmp_path, source, columns, words):
    source((1, "a"))
    message = refusal(stream_of(spark, source).selectExpr(*columns), log_dir, tmp_path, topic="t")
    assert "STREAMLOG_INVALID_SINK_COLUMNS" in message
    assert words in message


def test_invalid_options_fail_the_query_by_name(spark, log_dir, tmp_path, source):
    source((1, "a"))
    frame = as_value(stream_of(spark, source))
    message = refusal(frame, log_dir, tmp_path, topic="t", kafka__key__serializer="x")
    assert "kafka.key.serializer is not supported" in message


def test_a_record_above_the_limit_fails_the_query_until_the_limit_is_raised(spark, log_dir, tmp_path, source):
    make_topic(log_dir, "t", configs={"max.message.bytes": "1000"})
    source((1, "x" * 2000))
    frame = stream_of(spark, source).select(F.col("word").alias("value"))
    message = refusal(frame, log_dir, tmp_path, topic="t")
    assert "max.message.bytes" in message
    assert stored_values(log_dir, "t") == []
    from broker_core.embedded.embedded_cluster import open_embedded

    cluster = open_embedded(log_dir)
    cluster.alter_topic_configs("t", {"max.message.bytes": "10000"})
    cluster.close()
    run(frame, log_dir, tmp_path, topic="t")
    assert stored_values(log_dir, "t") == [b"x" * 2000]
