"""Spark's calls as its Python process makes them, on a real directory and without a JVM."""

import io
import json
import pickle
import sys

import pyarrow as pa
import pytest
from pyspark.serializers import CPickleSerializer, SpecialLengths, read_int, write_with_length
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import python_streaming_source_runner as program
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from support.builders.append_records import append_values

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition
from spark_streamlog.data_source import StreamlogDataSource
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.options.read_options import parse_read_options
from spark_streamlog.rows.kafka_schema import arrow_schema
from spark_streamlog.source.stream_reader import StreamlogStreamReader

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
def test_the_read_limit_decides_whether_the_options_limits_apply(log, given, limit):
    assert a_reader(log, **given).getDefaultReadLimit() == limit


def test_a_micro_batch_runs_from_start_to_commit(log):
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


def test_copies_for_tasks_contain_only_the_options(log):
    reader = a_reader(log, groupId="g")
    reader.initialOffset()
    copy = pickle.loads(pickle.dumps(reader))
    assert vars(copy) == {
        "_options": reader._options,
        "_has_plain_schema": False,
        "_planner_on_driver": None,
        "_batches": [],
    }


class PlanningProcess:
    """Speaks with a reader as PySpark's program does that plans a stream, with that program's own functions."""

    def __init__(self, monkeypatch, reader):
        monkeypatch.setitem(sys.modules, "__main__", program)
        self.reader = reader
        self.schema = from_arrow_schema(arrow_schema(include_headers=False))

    def plan(self, start, end):
        """(the partitions, the values that came with them or None)"""
        asked, answer = io.BytesIO(), io.BytesIO()
        for offset in (start, end):
            write_with_length(json.dumps(offset).encode(), asked)
        asked.seek(0)
        program.partitions_func(self.reader, StreamlogDataSource({}), self.schema, 10_000, asked, answer)
        answer.seek(0)
        partitions = [CPickleSerializer()._read_with_length(answer) for _ in range(read_int(answer))]
        status = read_int(answer)
        if status != program.NON_EMPTY_PYARROW_RECORD_BATCHES:
            return partitions, [] if status == program.EMPTY_PYARROW_RECORD_BATCHES else None
        assert read_int(answer) == SpecialLengths.START_ARROW_STREAM
        return partitions, pa.ipc.open_stream(answer).read_all().column("value").to_pylist()


def test_a_small_batch_is_sent_with_its_plan_and_can_be_read_again_by_a_task(log, monkeypatch):
    log.create_partitions("t", 2)
    append_values(log, "t", "x", partition=1)
    reader = a_reader(log)
    process = PlanningProcess(monkeypatch, reader)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    partitions, values = process.plan(start, end)
    assert values == [b"0", b"1", b"2", b"3", b"x"]
    (partition,) = partitions
    rows = [value for batch in reader.read(partition) for value in batch.column("value").to_pylist()]
    assert rows == values, "where the rows are lost, a task reads the one partition"


def test_a_reader_is_an_ordinary_one_again_after_its_rows_are_sent(log, monkeypatch):
    reader = a_reader(log)
    process = PlanningProcess(monkeypatch, reader)
    for _ in range(2):
        assert process.plan({"t": {"0": 0}}, {"t": {"0": 2}})[1] == [b"0", b"1"]
        assert type(reader) is StreamlogStreamReader
        assert not isinstance(reader, program._SimpleStreamReaderWrapper)
        assert not pickle.loads(pickle.dumps(reader))._batches


def test_a_large_batch_has_tasks_and_no_rows(log, monkeypatch):
    process = PlanningProcess(monkeypatch, a_reader(log, smallBatchOffsets="1"))
    partitions, values = process.plan({"t": {"0": 0}}, {"t": {"0": 4}})
    assert (len(partitions), values) == (1, None)
    partitions, values = process.plan({"t": {"0": 0}}, {"t": {"0": 1}})
    assert values == [b"0"]


def test_an_empty_plan_has_no_partitions(log, monkeypatch):
    assert PlanningProcess(monkeypatch, a_reader(log)).plan({"t": {"0": 4}}, {"t": {"0": 4}}) == ([], None)
