import logging
import pickle
import sys
import types

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, IsNotNull
from support.builders.append_records import append_records
from support.spark.read_query import read_options

from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.record.batch_reader import Record
from spark_streamlog.source import batch_reader
from spark_streamlog.source.batch_reader import FilteringBatchReader, StreamlogBatchReader, batch_reader_for
from spark_streamlog.source.pushed_filters import PUSHING_PROCESS


@pytest.fixture
def path(tmp_path):
    with EmbeddedCluster(tmp_path / "log", create=True) as cluster:
        cluster.create_topic("t", partition_count=2)
        for number in range(6):
            append_records(cluster, "t", Record(key=b"%d" % number, value=b"v"), partition=number % 2)
    return str(tmp_path / "log")


def rows_of(reader):
    partitions = reader.partitions()
    tasks = pickle.loads(pickle.dumps([(reader, one) for one in partitions]))
    return [row for task, one in tasks for batch in task.read(one) for row in batch.to_pylist()]


def has_push_filters(reader):
    """As Spark asks: with the method and without its setting the query fails."""
    return getattr(reader.pushFilters, "__func__", None) is not DataSourceReader.pushFilters


def test_a_reader_with_filters_reads_less_and_returns_all_filters_to_spark(path):
    reader = FilteringBatchReader(read_options(path=path))
    filters = [EqualTo(("partition",), 1), IsNotNull(("partition",))]
    assert list(reader.pushFilters(filters)) == filters
    assert sorted(row["key"] for row in rows_of(reader)) == [b"1", b"3", b"5"]
    assert reader.report.topics == ("t",)
    assert 0 < reader.report.bytes_skipped == reader.report.bytes_total / 2


def test_without_filters_both_readers_read_everything(path):
    expected = rows_of(StreamlogBatchReader(read_options(path=path)))
    assert len(expected) == 6
    reader = FilteringBatchReader(read_options(path=path))
    reader.pushFilters([])
    assert rows_of(reader) == expected


def test_a_query_logs_one_line(path, caplog):
    reader = FilteringBatchReader(read_options(path=path))
    reader.pushFilters([EqualTo(("partition",), 1)])
    with caplog.at_level(logging.INFO, "spark_streamlog"):
        reader.partitions()
    assert caplog.messages == [f"batch query planned: {reader.report}"]
    assert "topic=t bytes_total=" in caplog.text


def test_an_empty_input_partition_has_no_rows(path):
    assert list(StreamlogBatchReader(read_options(path=path)).read(types.SimpleNamespace(value=None))) == []


@pytest.mark.parametrize("wish", ["auto", "always", "never"])
def test_a_reader_accepts_filters_only_in_the_process_that_pushes_them(monkeypatch, wish):
    # plan_data_source_read refuses a reader that has pushFilters while the setting is off.
    options = read_options(pushFilters=wish)
    assert not has_push_filters(batch_reader_for(options))
    monkeypatch.setitem(sys.modules, PUSHING_PROCESS, types.ModuleType(PUSHING_PROCESS))
    for apart in (False, True):
        monkeypatch.setattr("spark_streamlog.source.pushed_filters.keeps_plans_apart", lambda apart=apart: apart)
        expected = wish == "always" or (wish == "auto" and apart)
        assert has_push_filters(batch_reader_for(options)) == expected


def test_a_query_whose_filters_are_not_used_logs_why(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, PUSHING_PROCESS, types.ModuleType(PUSHING_PROCESS))
    monkeypatch.setattr(batch_reader, "keeps_plans_apart", lambda: False)
    with caplog.at_level(logging.INFO, "spark_streamlog"):
        batch_reader_for(read_options(pushFilters="never"))
    assert "pushFilters is never and Spark does not keep the plans of one DataFrame apart" in caplog.text


def test_the_line_is_logged_even_where_spark_captures_the_logs(monkeypatch, path):
    logger = logging.getLogger("spark_streamlog")
    before = logger.level
    try:
        monkeypatch.setenv("PYSPARK_SPARK_SESSION_UUID", "a session")
        FilteringBatchReader(read_options(path=path)).partitions()
        assert logger.isEnabledFor(logging.INFO)
        logger.setLevel(logging.ERROR)
        FilteringBatchReader(read_options(path=path)).partitions()
        assert logger.level == logging.ERROR, "who has asked for a level keeps it"
    finally:
        logger.setLevel(before)
