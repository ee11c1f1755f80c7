"""Exactly-once delivery through Spark to brokers: a batch is readable as a whole or not at all, and never twice."""

import json

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as F
from support.builders.committed_rows import committed_values
from support.clients.transacting import begin
from support.spark.stream_driver import forget_last_commit

from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState

pytestmark = pytest.mark.spark

SCHEMA = "number long, word string"


@pytest.fixture
def source(tmp_path):
    """A folder of JSON files that a stream reads; each call adds one file."""
    folder = tmp_path / "source"
    folder.mkdir()

    def add(*rows):
        name = f"{len(list(folder.iterdir())):04d}.json"
        text = "".join(json.dumps({"number": number, "word": word}) + "\n" for number, word in rows)
        (folder / f".{name}").write_text(text)
        (folder / f".{name}").rename(folder / name)

    add.folder = str(folder)
    return add


@pytest.fixture
def checkpoint(tmp_path):
    return tmp_path / "checkpoint"


@pytest.fixture
def options(broker):
    return {f"kafka.{name}": value for name, value in broker.settings().items()}


def values_of(spark, source):
    return spark.readStream.schema(SCHEMA).json(source.folder).select(F.col("number").cast("string").alias("value"))


def run(frame, checkpoint, **options):
    writer = frame.writeStream.format("streamlog").options(**options, checkpointLocation=str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def save(frame, **options):
    frame.write.format("streamlog").mode("append").options(**options).save()


def a_frame(spark, *values):
    return spark.createDataFrame([(value,) for value in values], "value string")


def decided(client, group):
    return [offset.offset for offset in client.fetch_offsets(group).values()]


def open_transactions(client, prefix):
    ongoing = client.list_transactions(prefix=prefix, states=(TransactionState.ONGOING,))
    return [one.transactional_id for one in ongoing]


def query_id_of(checkpoint):
    return json.loads((checkpoint / "metadata").read_text())["id"]


def test_a_repeated_micro_batch_is_not_written_again(spark, client, topic, options, checkpoint, source):
    source((1, "a"), (2, "b"))
    for _ in range(2):
        run(values_of(spark, source).repartition(2), checkpoint, topic=topic, **options)
        forget_last_commit(checkpoint)
    source((3, "a"))
    run(values_of(spark, source).repartition(2), checkpoint, topic=topic, **options)
    assert sorted(committed_values(client, topic)) == [b"1", b"2", b"3"]
    assert decided(client, f"streamlog-sink-{query_id_of(checkpoint)}") == [1]
    assert open_transactions(client, query_id_of(checkpoint)) == []


@pytest.mark.long
def test_a_failed_micro_batch_is_not_readable_and_the_next_start_ends_its_transactions(
    spark, client, topic, options, checkpoint, source
):
    source((1, topic), (2, None))
    rows = spark.readStream.schema(SCHEMA).json(source.folder)
    fails = rows.repartition(2, "number").select(F.col("word").alias("topic"), F.lit("v").alias("value"))
    with pytest.raises(StreamingQueryException, match="KAFKA_NULL_TOPIC_IN_DATA"):
        run(fails, checkpoint, **options)
    assert committed_values(client, topic) == []
    run(values_of(spark, source), checkpoint, topic=topic, **options)
    assert sorted(committed_values(client, topic)) == [b"1", b"2"]
    assert open_transactions(client, query_id_of(checkpoint)) == []


@pytest.mark.long
def test_the_next_start_ends_the_transactions_of_a_killed_run(spark, client, topic, options, checkpoint, source):
    source((1, "a"))
    run(values_of(spark, source), checkpoint, topic=topic, **options)
    query_id = query_id_of(checkpoint)
    begin(client, f"{query_id}-7-0", TopicPartition(topic, 0), timeout_ms=900_000)
    assert open_transactions(client, query_id) == [f"{query_id}-7-0"]
    source((2, "a"))
    run(values_of(spark, source), checkpoint, topic=topic, **options)
    assert open_transactions(client, query_id) == []
    assert sorted(committed_values(client, topic)) == [b"1", b"2"]


@pytest.mark.long
def test_a_failed_job_is_not_readable_and_blocks_no_reader(spark, client, topic, options):
    rows = spark.range(0, 1000, 1, 2).selectExpr(
        f"if(id = 999, null, '{topic}') as topic", "cast(id as string) as value"
    )
    with pytest.raises(PySparkException, match="KAFKA_NULL_TOPIC_IN_DATA"):
        save(rows, **options)
    save(a_frame(spark, "after"), topic=topic, **options)
    assert committed_values(client, topic) == [b"after"]


@pytest.mark.long
def test_a_version_is_written_once_and_an_older_version_is_not_written(spark, broker, client, topic, options):
    app = broker.name("orders")
    for version, value in ((3, "three"), (3, "again"), (2, "two"), (5, "five")):
        save(a_frame(spark, value), topic=topic, txnAppId=app, txnVersion=version, **options)
    assert sorted(committed_values(client, topic)) == [b"five", b"three"]
    assert decided(client, f"streamlog-sink-{app}/{topic}") == [5]


@pytest.mark.long
def test_a_transaction_that_times_out_fails_the_job_and_names_the_setting(spark, client, topic, options):
    def wait_in_the_second_task(batches):
        import time

        from pyspark import TaskContext

        if TaskContext.get().partitionId() == 1:
            time.sleep(4.0)
        yield from batches

    rows = spark.range(0, 2, 1, 2).selectExpr("cast(id as string) as value")
    with pytest.raises(PySparkException, match=r"STREAMLOG_TRANSACTION_EXPIRED.*kafka\.transaction\.timeout\.ms"):
        save(
            rows.mapInArrow(wait_in_the_second_task, "value string"),
            topic=topic,
            **options,
            **{"kafka.transaction.timeout.ms": "1000"},
        )
    assert committed_values(client, topic) == []


@pytest.mark.long
def test_at_least_once_writes_a_repeated_batch_again_and_opens_no_transaction(
    spark, client, topic, options, checkpoint, source
):
    source((1, "a"), (2, "b"))
    for _ in range(2):
        run(values_of(spark, source), checkpoint, topic=topic, delivery="at-least-once", **options)
        forget_last_commit(checkpoint)
    assert sorted(committed_values(client, topic)) == [b"1", b"1", b"2", b"2"]
    assert client.list_transactions(prefix=query_id_of(checkpoint)) == ()
