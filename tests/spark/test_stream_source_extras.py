"""What the streaming source has and Spark's own for Kafka lacks, with Spark's own calls in their own order."""

import time
from uuid import UUID

import pytest
from support.builders.append_records import append_values
from support.clients.transacting import begin, write

from broker_core.cluster import GroupOffset
from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.group_lag import lag_of_group
from broker_core.model.identifiers import TopicPartition
from broker_core.model.retention_pin import pinned_until_ms
from spark_streamlog.lag_listener import LagListener, lags_of

T0 = TopicPartition("t", 0)


@pytest.fixture
def log(log_dir):
    """The topic `t` holds twenty records, one each minute until now, a batch each."""
    cluster = open_embedded(log_dir, create=True)
    cluster.create_topic("t")
    now_ms = int(time.time() * 1000)
    for number in range(20):
        append_values(cluster, "t", value(number), timestamps_ms=(now_ms - (19 - number) * 60_000,))
    yield cluster
    cluster.close()


def value(number):
    return f"{number:02}"


def values(*bounds):
    return [value(number) for number in range(*bounds)]


def committed(log):
    return {tp: entry.offset for tp, entry in log.fetch_offsets("g").items()}


@pytest.mark.long
def test_a_relative_start_is_kept_by_an_empty_first_batch_even_if_it_is_repeated(log, stream):
    first = stream(startingOffsets="latest-3").start(once=True)
    first.await_end()
    assert (first.logged_offsets(0), first.values()) == ([{"t": {"0": 17}}], [])
    first.forget_commit_of(0)
    append_values(log, "t", value(20))
    assert stream(startingOffsets="latest-3").run_available_now() == values(17, 21)


def test_a_stream_starts_minutes_ago_and_a_batch_at_a_groups_offsets(spark, log, log_dir, stream):
    assert stream(startingOffsets="-150s").run_available_now() == values(17, 20)
    log.commit_offsets("billing", {T0: GroupOffset(offset=18)})
    frame = spark.read.format("streamlog").option("subscribe", "t").option("startingOffsets", "group:billing")
    rows = frame.load(log_dir).selectExpr("CAST(value AS STRING) AS value").collect()
    assert sorted(row.value for row in rows) == values(18, 20)


@pytest.mark.long
def test_batches_are_as_large_as_max_bytes_per_trigger_allows(log, stream):
    one_batch = log.bytes_between(T0, 0, 1)
    driver = stream(maxBytesPerTrigger=8 * one_batch, groupId="g")
    assert driver.run_available_now() == values(20)
    assert [driver.logged_offsets(batch) for batch in range(3)] == [[{"t": {"0": end}}] for end in (8, 16, 20)]
    assert committed(log) == {T0: 20}, "all of a run is stored when it ends"


def test_the_group_has_the_progress_within_a_trigger_and_an_idle_query_renews_its_pin(log, stream):
    driver = stream(groupId="g", pinRetention="3s").start()
    driver.process_all()
    await_true(lambda: committed(log) == {T0: 20})
    (lag,) = lag_of_group(log, "g", now_ms=int(time.time() * 1000))
    assert (lag.behind_offsets, lag.behind_bytes, lag.behind_ms) == (0, 0, 0)
    first_end_ms = pinned_until_ms(log.fetch_offsets("g")[T0].metadata)
    await_true(lambda: pinned_until_ms(log.fetch_offsets("g")[T0].metadata) > first_end_ms)
    source = driver.query.lastProgress.sources[0]
    assert source.latestOffset == source.endOffset, "which is how far the query is behind: not at all"


def test_retention_keeps_the_records_of_a_stopped_query_as_long_as_its_pin_lasts(log, stream):
    log.create_topic("kept", configs={"segment.bytes": str(1024**2), "retention.ms": "1"})
    kept = TopicPartition("kept", 0)
    append_values(log, "kept", "small")
    stream(subscribe="kept", groupId="g", pinRetention="1h").start(once=True).await_end()
    for _ in range(4):
        append_values(log, "kept", b"x" * 600_000)
    log.maintain(["kept"])
    assert log.bounds(kept).log_start_offset == 0
    log.delete_group("g")
    log.maintain(["kept"])
    assert log.bounds(kept).log_start_offset > 0


@pytest.mark.long
def test_a_run_ends_after_an_aborted_tail_and_before_an_open_transaction(log, stream):
    producer = begin(log, "p", T0)
    write(log, producer, T0, "aborted")
    log.end_transaction(producer, commit=False)
    write(log, begin(log, "p", T0), T0, "open")
    append_values(log, "t", value(20))
    options = {"startingOffsets": "latest-4"}
    driver = stream(**options)
    assert driver.run_available_now() == values(18, 20)
    log.abort_transaction("p")
    assert stream(**options).run_available_now() == values(18, 21)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "group:nobody"}, "STREAMLOG_GROUP_WITHOUT_OFFSETS"),
        ({"maxBytesPerTrigger": "lots", "pinRetention": "1d"}, "maxBytesPerTrigger must be a size"),
    ],
)
def test_invalid_options_are_refused(log, stream, options, said):
    with pytest.raises(Exception, match=said):
        stream(**options).start().await_end()


def await_true(condition, timeout_seconds=20):
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)


def test_the_lag_listener_reports_how_far_a_query_is_behind(spark, log, stream):
    told = []
    listener = LagListener(told.append)
    spark.streams.addListener(listener)
    try:
        driver = stream(maxOffsetsPerTrigger=8)
        driver.run_available_now()
        # Spark calls listeners in a thread of its own.
        wait_until(lambda: len(told) >= 3)
        assert [lag.offsets.total for lag in told[:3]] == [12, 4, 0]
        assert {lag.query_id for lag in told} == {UUID(driver.query.id)}
        assert told[0].topics == ("t",)
        (last,) = lags_of(driver.query.lastProgress)
        assert last.offsets.total == 0
    finally:
        spark.streams.removeListener(listener)


def wait_until(is_so, timeout_seconds=60):
    deadline = time.monotonic() + timeout_seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)
