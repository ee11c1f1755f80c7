"""Exactly-once delivery through Spark: batches are readable whole or not at all, and a repeated one not twice."""

import json

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import functions as F
from support.builders.stored_records import stored_values
from support.clients.transacting import begin
from support.spark.stream_driver import forget_last_commit

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition
from broker_core.model.transaction_state import TransactionState

SCHEMA = "number long, word string"
CHECKPOINT_CONF = "spark.sql.streaming.checkpointLocation"


@pytest.fixture
def checkpoint(tmp_path):
    return tmp_path / "checkpoint"


def values_of(spark, source):
    return spark.readStream.schema(SCHEMA).json(source.folder).select(F.col("number").cast("string").alias("value"))


def run(frame, log_dir, checkpoint=None, **options):
    writer = frame.writeStream.format("streamlog").option("topic", "t").options(**options)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start(log_dir)
    query.awaitTermination()
    return query


def save(frame, log_dir, **options):
    frame.write.format("streamlog").mode("append").options(**{"topic": "t", **options}).save(log_dir)


def a_frame(spark, *values):
    return spark.createDataFrame([(value,) for value in values], "value string")


def decided(log_dir, group):
    with open_embedded(log_dir) as cluster:
        return [offset.offset for offset in cluster.fetch_offsets(group).values()]


def open_transactions(log_dir):
    with open_embedded(log_dir) as cluster:
        return [one.transactional_id for one in cluster.list_transactions(states=(TransactionState.ONGOING,))]


def query_id_of(checkpoint):
    return json.loads((checkpoint / "metadata").read_text())["id"]


# -- streams --


def test_a_repeated_micro_batch_is_not_written_again(spark, log_dir, checkpoint, source):
    source((1, "a"), (2, "b"))
    for _ in range(2):
        run(values_of(spark, source).repartition(2), log_dir, checkpoint)
        forget_last_commit(checkpoint)
    source((3, "a"))
    run(values_of(spark, source).repartition(2), log_dir, checkpoint)
    assert sorted(stored_values(log_dir, "t")) == [b"1", b"2", b"3"]
    assert decided(log_dir, f"streamlog-sink-{query_id_of(checkpoint)}") == [1]


def test_a_failed_stream_leaves_no_transaction_open_even_if_a_task_was_killed(spark, log_dir, checkpoint, source):
    def rows(batches):
        import time

        import pyarrow as pa
        from pyspark import TaskContext

        from broker_core.embedded.embedded_cluster import open_embedded
        from broker_core.model.transaction_state import TransactionState

        for _ in batches:
            pass
        if TaskContext.get().partitionId() == 0:
            for _ in range(12):
                yield pa.record_batch({"value": ["v" * 1000] * 1000})
            time.sleep(60)  # killed meanwhile, without a message to the driver
        with open_embedded(log_dir) as cluster:
            while not cluster.list_transactions(states=(TransactionState.ONGOING,)):
                time.sleep(0.05)
        raise RuntimeError("this one fails when the other one has written")

    source((1, "a"), (2, "b"))
    frame = values_of(spark, source).repartition(2).mapInArrow(rows, "value string")
    with pytest.raises(StreamingQueryException, match="this one fails"):
        run(frame, log_dir, checkpoint)
    assert open_transactions(log_dir) == []
    assert stored_values(log_dir, "t") == []
    with open_embedded(log_dir) as cluster:
        ended = {one.state for one in cluster.list_transactions() if not one.transactional_id.endswith("driver")}
    assert ended == {TransactionState.COMPLETE_ABORT}, "there was one to end"


def test_a_failed_stream_leaves_no_transaction_open_without_a_known_query(spark, log_dir, tmp_path, source):
    spark.conf.set(CHECKPOINT_CONF, str(tmp_path / "checkpoints"))
    source((1, "a"))
    try:
        for _ in range(2):
            query = values_of(spark, source).writeStream.format("streamlog").queryName("named").option("topic", "t")
            query.trigger(availableNow=True).start(log_dir).awaitTermination()
            forget_last_commit(tmp_path / "checkpoints" / "named")
    finally:
        spark.conf.unset(CHECKPOINT_CONF)
    assert stored_values(log_dir, "t") == [b"1"]


def test_the_next_start_ends_the_transactions_of_a_failed_micro_batch(spark, log_dir, checkpoint, source):
    source((1, "t"), (2, None))
    rows = spark.readStream.schema(SCHEMA).json(source.folder)
    fails = rows.repartition(2, "number").select(F.col("word").alias("topic"), F.lit("v").alias("value"))
    with pytest.raises(StreamingQueryException, match="KAFKA_NULL_TOPIC_IN_DATA"):
        fails.writeStream.format("streamlog").option("checkpointLocation", str(checkpoint)).trigger(
            availableNow=True
        ).start(log_dir).awaitTermination()
    assert stored_values(log_dir, "t") == []
    run(values_of(spark, source), log_dir, checkpoint)
    assert sorted(stored_values(log_dir, "t")) == [b"1", b"2"]
    assert open_transactions(log_dir) == []


def test_the_next_start_ends_the_open_transactions_of_a_killed_run(spark, log_dir, checkpoint, source):
    source((1, "a"))
    run(values_of(spark, source), log_dir, checkpoint)
    leave_open(log_dir, f"{query_id_of(checkpoint)}-7-0")
    leave_open(log_dir, "of-somebody-else")
    source((2, "a"))
    run(values_of(spark, source), log_dir, checkpoint)
    assert open_transactions(log_dir) == ["of-somebody-else"]


def leave_open(log_dir, transactional_id):
    with open_embedded(log_dir) as cluster:
        begin(cluster, transactional_id, TopicPartition("t", 0), timeout_ms=900_000)


def test_an_older_copy_of_the_checkpoint_is_refused(spark, log_dir, checkpoint, source):
    for number in (1, 2):
        source((number, "a"))
        run(values_of(spark, source), log_dir, checkpoint)
    forget_last_commit(checkpoint)
    (checkpoint / "offsets" / "1").unlink()
    (checkpoint / "offsets" / ".1.crc").unlink()
    (checkpoint / "sources" / "0" / "1").unlink()
    (checkpoint / "sources" / "0" / ".1.crc").unlink()
    source((3, "a"))
    with pytest.raises(StreamingQueryException, match="STREAMLOG_BATCH_NOT_NEXT"):
        run(values_of(spark, source), log_dir, checkpoint)
    assert stored_values(log_dir, "t") == [b"1", b"2"]


# -- batch writes --


def test_a_failed_job_is_not_readable_and_blocks_no_reader(spark, log_dir):
    rows = spark.range(0, 1000, 1, 2).selectExpr("if(id = 999, null, 't') as topic", "cast(id as string) as value")
    with pytest.raises(PySparkException, match="KAFKA_NULL_TOPIC_IN_DATA"):
        rows.write.format("streamlog").mode("append").save(log_dir)
    assert stored_values(log_dir, "t") == []
    assert open_transactions(log_dir) == []
    save(a_frame(spark, "after"), log_dir)
    assert stored_values(log_dir, "t") == [b"after"]


def test_a_txn_version_is_written_once_and_an_older_one_never(spark, log_dir):
    for version, value in ((3, "three"), (3, "again"), (2, "two"), (5, "five")):
        save(a_frame(spark, value), log_dir, txnAppId="orders", txnVersion=version)
    save(a_frame(spark, "other"), log_dir, txnAppId="other", txnVersion=0)
    assert sorted(stored_values(log_dir, "t")) == [b"five", b"other", b"three"]
    assert decided(log_dir, "streamlog-sink-orders/t") == [5]


def test_foreach_batch_with_txn_app_id_is_written_once_to_each_topic(spark, log_dir, checkpoint, source):
    def write(frame, batch_id):
        for topic in ("t", "u"):
            save(frame, log_dir, topic=topic, txnAppId="each", txnVersion=batch_id)

    source((1, "a"))
    for _ in range(2):
        writer = values_of(spark, source).writeStream.foreachBatch(write)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        forget_last_commit(checkpoint)
    assert stored_values(log_dir, "t") == stored_values(log_dir, "u") == [b"1"]


def test_a_transaction_that_times_out_fails_the_job_and_names_the_option(spark, log_dir):
    def wait_in_the_second_task(batches):
        import time

        from pyspark import TaskContext

        if TaskContext.get().partitionId() == 1:
            time.sleep(1.0)
        yield from batches

    rows = spark.range(0, 2, 1, 2).selectExpr("cast(id as string) as value")
    with pytest.raises(PySparkException, match=r"STREAMLOG_TRANSACTION_EXPIRED.*kafka\.transaction\.timeout\.ms"):
        save(
            rows.mapInArrow(wait_in_the_second_task, "value string"),
            log_dir,
            **{"kafka.transaction.timeout.ms": "200"},
        )
    assert stored_values(log_dir, "t") == []
