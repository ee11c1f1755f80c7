"""`spark.read.format("streamlog")` over a log directory."""

import datetime
import time

import pytest
from chispa import assert_df_equality
from support.builders.append_records import append_records, append_values
from support.clients.transacting import begin, write

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.log_directory.directory import LogDirectory
from broker_core.log_directory.partition_lock import LockMode
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.model.exceptions import DirectoryLockedError
from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_reader import Record
from broker_core.storage.os_file_system import OsFileSystem

KEEP = {"retention.ms": "-1"}
"""Records with timestamps of 1970 would be gone as soon as their segment rolls."""


@pytest.fixture
def log(log_dir):
    cluster = open_embedded(log_dir, create=True)
    cluster.create_topic("t", partition_count=2, configs=KEEP)
    append_values(cluster, "t", "a0", "a1", "a2", partition=0, timestamps_ms=(100, 200, 300))
    append_values(cluster, "t", "b0", "b1", partition=1, timestamps_ms=(150, 250))
    yield cluster
    cluster.close()


@pytest.fixture
def frame(spark, log_dir):
    def load(**options):
        if not {"subscribe", "subscribePattern", "assign"} & options.keys():
            options["subscribe"] = "t"
        return spark.read.format("streamlog").options(**options).load(log_dir)

    return load


def values(df):
    rows = df.selectExpr("CAST(value AS STRING) AS value").collect()
    return sorted((row.value for row in rows), key=lambda value: (value is None, value))


EVERYTHING = ["a0", "a1", "a2", "b0", "b1"]


def test_all_records_are_read_by_default(log, frame):
    assert values(frame()) == EVERYTHING
    assert values(frame(startingOffsets="earliest", endingOffsets="latest")) == EVERYTHING


def test_the_columns_are_those_of_sparks_kafka_source(spark, log, frame):
    append_records(log, "t", Record(key=b"k", value=b"", timestamp_ms=1_700_000_000_123), partition=1)
    expected = spark.createDataFrame(
        [(b"k", b"", "t", 1, 2, datetime.datetime.fromtimestamp(1_700_000_000.123), 0)],
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int",
    )
    assert_df_equality(frame().where("partition = 1 AND offset = 2"), expected)


def test_headers_are_read_with_include_headers_and_null_without_headers(spark, log, frame):
    headers = (("a", b"1"), ("b", None), ("a", b""))
    append_records(log, "t", Record(value=b"h", timestamp_ms=0, headers=headers), Record(timestamp_ms=0))
    df = frame(includeHeaders="true", startingOffsets='{"t":{"0":3,"1":2}}')
    expected = spark.createDataFrame(
        [(3, list(headers)), (4, None)], "offset bigint, headers array<struct<key:string,value:binary>>"
    )
    assert_df_equality(df.select("offset", "headers"), expected, ignore_row_order=True)


def test_null_and_empty_values_differ(spark, log, frame):
    given = [(None, None), (b"", b""), (None, b"x")]
    append_records(log, "t", *(Record(key=k, value=v, timestamp_ms=0) for k, v in given))
    df = frame(startingOffsets='{"t":{"0":3,"1":2}}').orderBy("offset").select("key", "value")
    assert_df_equality(df, spark.createDataFrame(given, "key binary, value binary"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingTimestamp": 200}, ["a1", "a2", "b1"]),
        ({"endingTimestamp": 200}, ["a0", "b0"]),
        ({"startingTimestamp": 150, "endingTimestamp": 300}, ["a1", "b0", "b1"]),
        ({"startingOffsetsByTimestamp": '{"t":{"0":300,"1":0}}'}, ["a2", "b0", "b1"]),
        ({"endingOffsetsByTimestamp": '{"t":{"0":300,"1":9999}}'}, ["a0", "a1", "b0", "b1"]),
        ({"startingOffsets": '{"t":{"0":1,"1":2}}', "endingOffsets": '{"t":{"0":2,"1":-1}}'}, ["a1"]),
        ({"startingTimestamp": 200, "startingOffsets": "earliest"}, ["a1", "a2", "b1"]),
        ({"startingTimestamp": 300, "startingOffsetsByTimestampStrategy": "latest"}, ["a2"]),
        ({"assign": '{"t":[1]}'}, ["b0", "b1"]),
        ({"subscribePattern": "^T|t$"}, EVERYTHING),
        ({"SUBSCRIBE": " t ,, "}, EVERYTHING),
        ({"minPartitions": 5}, EVERYTHING),
        ({"maxRecordsPerPartition": 1}, EVERYTHING),
    ],
)
def test_subscriptions_and_limits_determine_the_rows(log, frame, options, expected):
    options = {"subscribe" if name == "SUBSCRIBE" else name: value for name, value in options.items()}
    assert values(frame(**options)) == expected


def test_ranges_are_divided_into_the_requested_number_of_tasks(log, frame):
    assert frame().rdd.getNumPartitions() == 2
    assert frame(maxRecordsPerPartition=1).rdd.getNumPartitions() == 5


def test_a_dataframe_that_is_used_again_sees_new_data(log, frame):
    df = frame()
    assert values(df) == EVERYTHING
    append_values(log, "t", "a3")
    assert values(df) == [*EVERYTHING[:3], "a3", "b0", "b1"]
    assert df.count() == 6


def test_a_dataframe_can_be_used_twice_in_one_query(log, frame):
    df = frame(endingOffsets='{"t":{"0":1,"1":1}}')
    assert values(df.union(df)) == ["a0", "a0", "b0", "b0"]


def test_read_committed_is_the_default(log, frame):
    partition = TopicPartition("t", 0)
    producer = begin(log, "producer", partition)
    write(log, producer, partition, "open")
    append_values(log, "t", "behind")
    assert values(frame()) == EVERYTHING
    both = frame(**{"kafka.isolation.level": "read_uncommitted"})
    assert values(both) == sorted([*EVERYTHING, "open", "behind"])
    log.end_transaction(producer, commit=False)
    assert values(frame()) == sorted([*EVERYTHING, "behind"])


def test_data_loss_fails_the_query_and_with_false_the_rest_is_read(log, frame):
    append_values(log, "t", "a3")
    log.delete_records(TopicPartition("t", 0), 2)
    wanted = {"startingOffsets": '{"t":{"0":1,"1":2}}'}
    with pytest.raises(Exception, match=r"KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"):
        values(frame(**wanted))
    assert values(frame(failOnDataLoss="false", **wanted)) == ["a2", "a3"]
    assert values(frame()) == ["a2", "a3", "b0", "b1"]


def test_a_temporary_view_reads_with_its_options(spark, log, log_dir):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING streamlog OPTIONS (path '{log_dir}', Subscribe 't')")
    assert spark.sql("SELECT count(*) AS n FROM v").first().n == 5
    spark.catalog.dropTempView("v")


def test_an_empty_topic_gives_no_rows(log, frame):
    log.create_topic("empty")
    assert values(frame(subscribe="empty")) == []
    assert values(frame(subscribePattern="nothing")) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "t", "assign": '{"t":[0]}'}, "exactly one of subscribe, subscribePattern and assign"),
        ({"failOnDataLos": "true"}, "did you mean failOnDataLoss"),
        ({"minPartitions": "0", "includeHeaders": "perhaps"}, "2 option\\(s\\) of the streamlog source are wrong"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"startingTimestamp": "soon"}, "startingTimestamp must be a whole number"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset is not supported"),
        ({"kafka.bootstrap.servers": "h:1"}, "path names a directory and kafka.bootstrap.servers names brokers"),
    ],
)
def test_invalid_options_are_refused_at_load(log, frame, options, said):
    with pytest.raises(Exception, match=said):
        frame(**options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest in a batch query"),
        ({"subscribe": "nope"}, "STREAMLOG_UNKNOWN_TOPICS"),
        ({"startingOffsets": '{"t":{"0":0}}'}, "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"),
        ({"startingOffsets": '{"t":{"0":9,"1":0}}'}, "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"),
        ({"startingTimestamp": "300"}, "STREAMLOG_NO_OFFSET_FOR_TIMESTAMP"),
    ],
)
def test_errors_that_need_the_log_are_reported_when_the_query_runs(log, frame, options, said):
    df = frame(**options)
    with pytest.raises(Exception, match=said):
        df.collect()


def test_a_user_defined_schema_is_refused(spark, log, log_dir):
    df = spark.read.format("streamlog").schema("value string").option("subscribe", "t").load(log_dir)
    with pytest.raises(Exception, match="STREAMLOG_FIXED_SCHEMA"):
        df.collect()


def test_a_missing_directory_is_refused_and_not_created(spark, tmp_path):
    missing = tmp_path / "missing"
    df = spark.read.format("streamlog").option("subscribe", "t").load(str(missing))
    with pytest.raises(Exception, match="STREAMLOG_NO_SUCH_LOG"):
        df.collect()
    assert not missing.exists()


def test_a_broker_can_start_seconds_after_a_sessions_workers_are_idle(spark, log_dir):
    spark.range(3).selectExpr("CAST(id AS STRING) AS value").write.format("streamlog").option("topic", "t").mode(
        "append"
    ).save(log_dir)
    assert spark.read.format("streamlog").option("subscribe", "t").load(log_dir).count() == 3
    # Spark itself ends a worker that was idle for a minute.
    deadline = time.monotonic() + 40
    while True:
        try:
            LogDirectory(
                OsFileSystem(), log_dir, create=False, entropy=SystemEntropy(), lock_mode=LockMode.EXCLUSIVE
            ).close()
            break
        except DirectoryLockedError:
            assert time.monotonic() < deadline, "a worker still has the directory's lock"
    assert spark.read.format("streamlog").option("subscribe", "t").load(log_dir).count() == 3
