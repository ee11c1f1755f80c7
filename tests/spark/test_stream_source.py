"""`spark.readStream.format("streamlog")` over a log directory.

What tests/unit/spark_streamlog/source/test_stream_planner*.py prove of the planner alone is repeated here with Spark's
own calls in the long profile; by default there is one test of each thing that Spark and the planner do together.
"""

import itertools
import time

import pytest
from support.builders.append_records import append_values
from support.clients.transacting import begin, write

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition

KEEP = {"retention.ms": "-1"}
"""Records with timestamps of 1970 would be gone as soon as their segment rolls."""


@pytest.fixture
def log(log_dir):
    cluster = open_embedded(log_dir, create=True)
    cluster.create_topic("t", configs=KEEP)
    yield cluster
    cluster.close()


def numbers(*bounds):
    return [str(n) for n in range(*bounds)]


def test_new_rows_are_read_and_the_checkpoint_has_kafkas_format(log, stream):
    append_values(log, "t", "a", "b")
    driver = stream().start()
    assert driver.process_all() == ["a", "b"]
    append_values(log, "t", "c")
    assert driver.process_all() == ["a", "b", "c"]
    began = time.monotonic()
    driver.stop()
    assert time.monotonic() - began < 20, "a query can be stopped at once"
    assert [driver.logged_offsets(batch) for batch in (0, 1)] == [[{"t": {"0": 2}}], [{"t": {"0": 3}}]]
    progress = driver.query.lastProgress
    assert progress.sources[0].numInputRows == progress.numInputRows


def test_a_restarted_query_continues_from_its_checkpoint(log, stream):
    append_values(log, "t", "a")
    first = stream().start()
    first.process_all()
    first.stop()
    append_values(log, "t", "b", None, "")
    assert stream(startingOffsets="latest").start().process_all() == ["", "a", "b", None], "null stays null"


def test_a_query_starts_at_latest_and_a_repeated_first_batch_loses_nothing(log, stream):
    append_values(log, "t", "old")
    options = {"startingOffsets": "latest"}
    driver = stream(**options).start()
    driver.process_all()
    driver.stop()
    assert driver.logged_offsets(0) == [{"t": {"0": 1}}]
    driver.forget_commit_of(0)
    append_values(log, "t", "new")
    assert stream(**options).start().process_all() == ["new"]


def test_available_now_reads_existing_records_in_batches_of_the_maximum(log, stream):
    for number in range(15):
        append_values(log, "t", str(number))
    driver = stream(maxOffsetsPerTrigger=5)
    assert driver.run_available_now() == sorted(numbers(15))
    assert driver.logged_offsets(2) == [{"t": {"0": 15}}]
    assert not (driver.checkpoint / "offsets" / "3").exists()


@pytest.mark.long
def test_trigger_once_ignores_the_limits(log, stream):
    append_values(log, "t", *numbers(10))
    driver = stream(maxOffsetsPerTrigger=2, minOffsetsPerTrigger=1).start(once=True)
    driver.await_end()
    assert driver.values() == numbers(10)


@pytest.mark.long
def test_the_minimum_delays_a_batch_until_the_maximum_delay(log, stream):
    append_values(log, "t", "a")
    driver = stream(minOffsetsPerTrigger=10, maxTriggerDelay="2s").start()
    assert driver.process_all() == ["a"], "the first batch always fires"
    append_values(log, "t", "b")
    time.sleep(0.5)
    assert driver.values() == ["a"]
    deadline = time.monotonic() + 30
    while driver.values() != ["a", "b"] and time.monotonic() < deadline:
        time.sleep(0.2)
    assert driver.values() == ["a", "b"]


SUBSCRIPTIONS = {
    "subscribe": {"subscribe": "t"},
    "pattern": {"subscribePattern": "^t$"},
    "assign": {"assign": '{"t":[0,1]}'},
}
STARTS = {
    "earliest": ({"startingOffsets": "earliest"}, ["a0", "a1", "b0", "late"]),
    "latest": ({"startingOffsets": "latest"}, ["late"]),
    "offsets": ({"startingOffsets": '{"t":{"0":1,"1":-2}}'}, ["a1", "b0", "late"]),
    "timestamps": ({"startingOffsetsByTimestamp": '{"t":{"0":200,"1":150}}'}, ["a1", "b0", "late"]),
    "global timestamp": ({"startingTimestamp": 150}, ["a1", "b0", "late"]),
}


def subscriptions_and_starts():
    """Each with each, which is long. By default two that differ in all: the starts have their tests without Spark."""
    short = {("latest", "pattern", "false"), ("timestamps", "assign", "true")}
    return [
        pytest.param(
            SUBSCRIPTIONS[subscription],
            *STARTS[start],
            loss,
            marks=() if (start, subscription, loss) in short else pytest.mark.long,
            id=f"{start}-{subscription}-{loss}",
        )
        for start, subscription, loss in itertools.product(STARTS, SUBSCRIPTIONS, ("true", "false"))
    ]


@pytest.mark.parametrize(("options", "start", "expected", "fail_on_data_loss"), subscriptions_and_starts())
def test_subscriptions_and_starts_determine_the_rows(log, stream, options, start, expected, fail_on_data_loss):
    log.create_partitions("t", 2)
    append_values(log, "t", "a0", "a1", timestamps_ms=(100, 200))
    append_values(log, "t", "b0", partition=1, timestamps_ms=(150,))
    driver = stream(failOnDataLoss=fail_on_data_loss, **options, **start).start()
    driver.process_all()
    append_values(log, "t", "late")
    assert driver.process_all() == expected


@pytest.mark.long
def test_a_timestamp_without_a_matching_record_is_an_error_or_the_end(log, stream):
    append_values(log, "t", "a", timestamps_ms=(100,))
    refused = stream("refused", startingTimestamp=101).start()
    with pytest.raises(Exception, match="STREAMLOG_NO_OFFSET_FOR_TIMESTAMP"):
        refused.process_all()
    driver = stream("latest", startingTimestamp=101, startingOffsetsByTimestampStrategy="latest").start()
    driver.process_all()
    append_values(log, "t", "b")
    assert driver.process_all() == ["b"]


@pytest.mark.long
def test_topics_of_a_pattern_can_be_added_and_deleted(log, stream):
    append_values(log, "t", "a")
    driver = stream(subscribePattern=".*", failOnDataLoss="false").start()
    assert driver.process_all() == ["a"]
    log.create_topic("u")
    append_values(log, "u", "b")
    assert driver.process_all() == ["a", "b"]
    log.delete_topic("t")
    append_values(log, "u", "c")
    assert driver.process_all() == ["a", "b", "c"]


@pytest.mark.long
def test_an_offset_without_partitions_is_never_checkpointed(log, stream):
    append_values(log, "t", "a")
    driver = stream(failOnDataLoss="false", fetchOffset__retryIntervalMs=1).start()
    driver.process_all()
    log.delete_topic("t")
    time.sleep(1)
    driver.stop()
    assert driver.query.exception() is None
    assert driver.logged_offsets(0) == [{"t": {"0": 1}}]
    assert not (driver.checkpoint / "offsets" / "1").exists()


def test_a_deleted_topic_fails_a_query_that_must_not_lose_data(log, stream):
    driver = stream(fetchOffset__retryIntervalMs=1).start()
    driver.process_all()
    log.delete_topic("t")
    with pytest.raises(Exception, match=r"KAFKA_DATA_LOSS.PARTITIONS_DELETED"):
        driver.await_end()


def recreate(log, *values, partition_count=1):
    log.delete_topic("t")
    log.create_topic("t", partition_count=partition_count, configs=KEEP)
    append_values(log, "t", *values)


@pytest.mark.long
def test_a_topic_recreated_during_the_query_fails_it(log, stream):
    append_values(log, "t", "a", "b")
    driver = stream().start()
    driver.process_all()
    recreate(log, *numbers(5))
    with pytest.raises(Exception, match=r"KAFKA_DATA_LOSS.TOPIC_RECREATED|KAFKA_DATA_LOSS.PARTITIONS_DELETED"):
        driver.await_end()


@pytest.mark.long
def test_with_false_a_topic_recreated_is_read_from_its_start(log, stream):
    append_values(log, "t", "a", "b")
    driver = stream(failOnDataLoss="false").start()
    driver.process_all()
    recreate(log, "n0", "n1")
    assert driver.process_all() == ["a", "b", "n0", "n1"]


def test_a_topic_recreated_between_runs_is_detected_by_its_end(log, stream):
    append_values(log, "t", "a", "b")
    first = stream().start()
    first.process_all()
    first.stop()
    recreate(log, "6")
    with pytest.raises(Exception, match=r"KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED"):
        stream(fetchOffset__retryIntervalMs=1).start().process_all()


@pytest.mark.long
@pytest.mark.parametrize("fail_on_data_loss", ["false", "true"])
def test_a_recreated_topic_that_has_grown_past_the_checkpoint_is_detected(log, stream, fail_on_data_loss):
    append_values(log, "t", "a", "b")
    first = stream()
    first.options["checkpointLocation"] = str(first.checkpoint)
    first.run_available_now()
    recreate(log, "n0", "n1", "n2")
    second = stream(checkpointLocation=first.checkpoint, failOnDataLoss=fail_on_data_loss)
    if fail_on_data_loss == "true":
        with pytest.raises(Exception, match=r"KAFKA_DATA_LOSS.TOPIC_RECREATED"):
            second.run_available_now()
    else:
        assert second.run_available_now() == ["a", "b", "n0", "n1", "n2"]


PARTITIONS_LOST = (1, 15, "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW")
OFFSETS_SHRUNK = (3, 2, "END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW")


@pytest.mark.long
@pytest.mark.parametrize(
    ("partition_count", "kept", "condition", "fail_on_data_loss"),
    [
        pytest.param(*PARTITIONS_LOST, "true", id="partitions become unavailable"),
        pytest.param(*OFFSETS_SHRUNK, "false", id="offsets shrink"),
        pytest.param(*PARTITIONS_LOST, "false", id="partitions become unavailable, no failure"),
        pytest.param(*OFFSETS_SHRUNK, "true", id="offsets shrink, failure"),
    ],
)
def test_available_now_fails_regardless_of_fail_on_data_loss(
    spark, log, stream, tmp_path, fail_on_data_loss, partition_count, kept, condition
):
    log.create_partitions("t", 3)
    append_values(log, "t", *numbers(15))
    driver = stream(maxOffsetsPerTrigger=5, failOnDataLoss=fail_on_data_loss, fetchOffset__retryIntervalMs=1)

    def change_the_topic(frame, batch_id):
        recreate(log, *numbers(kept), partition_count=partition_count)

    writer = driver.frame().writeStream.foreachBatch(change_the_topic).trigger(availableNow=True)
    driver.query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(Exception, match=condition):
        driver.await_end()


@pytest.mark.long
def test_a_batch_repeated_under_available_now_does_not_fail_repeatedly(log, stream):
    append_values(log, "t", *numbers(5))
    driver = stream(maxOffsetsPerTrigger=5)
    driver.run_available_now()
    driver.forget_commit_of(0)
    log.create_partitions("t", 2)
    append_values(log, "t", "b", partition=1)
    assert stream(maxOffsetsPerTrigger=5).run_available_now() == [*numbers(5), "b"]


def test_read_committed_hides_aborted_records_and_waits_for_open_transactions(log, stream):
    partition = TopicPartition("t", 0)
    append_values(log, "t", "a")
    producer = begin(log, "producer", partition)
    write(log, producer, partition, "x")
    append_values(log, "t", "b")
    committed = stream("committed").start()
    uncommitted = stream("uncommitted", kafka__isolation__level="read_uncommitted").start()
    assert committed.process_all() == ["a"]
    assert uncommitted.process_all() == ["a", "b", "x"]
    log.end_transaction(producer, commit=False)
    assert committed.process_all() == ["a", "b"]
    producer = begin(log, "producer", partition)
    write(log, producer, partition, "y")
    log.end_transaction(producer, commit=True)
    assert committed.process_all() == ["a", "b", "y"]
    assert uncommitted.process_all() == ["a", "b", "x", "y"]


def test_records_deleted_before_they_are_read_are_a_loss(log, stream):
    append_values(log, "t", "a")
    first = stream().start()
    first.process_all()
    first.stop()
    append_values(log, "t", "b", "c", "d")
    log.delete_records(TopicPartition("t", 0), 3)
    with pytest.raises(Exception, match=r"KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"):
        stream().start().process_all()
    assert stream(failOnDataLoss="false").start().process_all() == ["a", "d"]


@pytest.mark.long
def test_min_partitions_splits_a_batch_and_a_64_bit_maximum_does_not_overflow(log, stream):
    append_values(log, "t", *numbers(15))
    driver = stream(minPartitions=4, maxOffsetsPerTrigger=2**63 - 1, startingOffsets='{"t":{"0":5}}')
    assert driver.run_available_now() == sorted(numbers(5, 15))
    files = list(driver.output.glob("part-*.parquet"))
    assert len(files) == 4


def test_a_watermark_on_the_column_timestamp_works(spark, log, log_dir, tmp_path):
    append_values(log, "t", "a", timestamps_ms=(int(time.time() * 1000),))
    frame = spark.readStream.format("streamlog").option("subscribe", "t").option("startingOffsets", "earliest")
    counts = frame.load(log_dir).withWatermark("timestamp", "10 seconds").groupBy("timestamp").count()
    query = counts.writeStream.format("memory").outputMode("complete").queryName("watermarked").start()
    try:
        query.processAllAvailable()
        assert [row["count"] for row in spark.table("watermarked").collect()] == [1]
    finally:
        query.stop()


def test_both_sides_of_a_self_join_read_the_same_offsets(spark, log, log_dir, tmp_path):
    append_values(log, "t", "1", "2")
    frame = spark.readStream.format("streamlog").option("subscribe", "t").option("startingOffsets", "earliest")
    values = frame.load(log_dir).selectExpr("CAST(value AS STRING) AS value")
    writer = values.join(values, "value").writeStream.format("memory").queryName("self_joined")
    checkpoint = tmp_path / "joined"
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        query.processAllAvailable()
        assert sorted(row.value for row in spark.table("self_joined").collect()) == ["1", "2"]
        # Spark plans a source per side, also for its own sources; both must stop at the same place.
        assert set((checkpoint / "offsets" / "0").read_text().splitlines()[2:]) == {'{"t": {"0": 2}}'}
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is not valid in a streaming query"),
        ({"endingTimestamp": "5"}, "endingTimestamp is not valid in a streaming query"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "is higher than maxOffsetsPerTrigger"),
        ({"subscribe": "nope"}, "STREAMLOG_UNKNOWN_TOPICS"),
        ({"startingOffsets": '{"t":{"5":0}}'}, "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"),
    ],
)
def test_invalid_options_are_refused(log, stream, options, said):
    with pytest.raises(Exception, match=said):
        stream(**options).start().await_end()
