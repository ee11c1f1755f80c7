"""Spark's calls as its Python process makes them, on a real directory and without a JVM."""

import pickle

import pytest
from append_records import append_values
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition
from spark_streamlog.options import QueryKind
from spark_streamlog.read_options import parse_read_options
from spark_streamlog.stream_reader import StreamlogStreamReader

T0 = TopicPartition("t", 0)


@pytest.fixture
def log(tmp_path):
    with open_embedded(tmp_path / "log", create=True) as cluster:
        cluster.create_topic("t", configs={"retention.ms": "-1"})
        for number in range(4):
            append_values(cluster, "t", str(number))
        yield cluster


def a_reader(log, **given):
    named = {"path": str(log.path), "subscribe": "t", "startingOffsets": "earliest"} | given
    return StreamlogStreamReader(parse_read_options(named, QueryKind.STREAM))


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "5"}, ReadMaxRows(5)),
        ({"maxBytesPerTrigger": "1m"}, ReadMaxRows(2**63 - 1)),
        ({"minOffsetsPerTrigger": "5"}, ReadMaxRows(2**63 - 1)),
        ({"maxBytesPerTrigger": "1m", "maxOffsetsPerTrigger": "5"}, ReadMaxRows(5)),
    ],
)
def test_the_read_limit_says_whether_the_options_limits_count(log, given, limit):
    assert a_reader(log, **given).getDefaultReadLimit() == limit


def test_a_micro_batch_from_start_to_commit(log):
    one_batch = log.bytes_between(T0, 0, 1)
    reader = a_reader(log, maxBytesPerTrigger=str(3 * one_batch), groupId="g")
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    assert (start, end) == ({"t": {"0": 0}}, {"t": {"0": 3}})
    assert log.fetch_offsets("g")[T0].offset == 0
    (partition,) = reader.partitions(start, end)
    rows = [value for batch in reader.read(partition) for value in batch.column("value").to_pylist()]
    assert rows == [b"0", b"1", b"2"]
    assert reader.latestOffset(end, ReadAllAvailable()) == {"t": {"0": 4}}
    assert log.fetch_offsets("g")[T0].offset == 3
    reader.commit(end)
    assert log.fetch_offsets("g")[T0].offset == 3
    assert reader.reportLatestOffset() == {"t": {"0": 4}}


def test_the_copies_for_tasks_carry_the_options_only(log):
    reader = a_reader(log, groupId="g")
    reader.initialOffset()
    copy = pickle.loads(pickle.dumps(reader))
    assert vars(copy) == {"_options": reader._options, "_planner_on_driver": None}
