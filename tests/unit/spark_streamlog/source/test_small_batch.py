import dataclasses

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.read_query import StreamRun, read_options, values_of

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.source import small_batch
from spark_streamlog.source.planned_range import PlannedRange
from spark_streamlog.source.small_batch import read_small_batch


@pytest.fixture
def cluster():
    cluster = InMemoryCluster()
    cluster.create_topic("t", partition_count=2)
    cluster.add("t", "a", "b", "c")
    cluster.add("t", "d", "e", partition=1)
    return cluster


def plan_of(cluster, *bounds):
    topic_id = cluster.describe_topics()["t"].topic_id
    return [
        PlannedRange(topic_partition=TopicPartition("t", number), from_offset=a, until_offset=b, topic_id=topic_id)
        for number, (a, b) in enumerate(bounds)
    ]


def read(cluster, planned, **given):
    batches = read_small_batch(cluster, planned, read_options(QueryKind.STREAM, **given))
    return None if batches is None else values_of(batches)


def test_a_small_batch_has_the_same_rows_as_its_tasks(cluster):
    assert read(cluster, plan_of(cluster, (1, 3), (0, 1))) == ["b", "c", "d"]


def test_a_batch_of_gaps_has_no_rows_and_is_handed_over(cluster):
    cluster.compact_away("t", 0)
    assert read(cluster, plan_of(cluster, (0, 3))) == []


def test_the_option_small_batch_offsets_is_the_bound(cluster):
    planned = plan_of(cluster, (0, 3), (0, 2))
    assert read(cluster, planned, smallBatchOffsets=5) == ["a", "b", "c", "d", "e"]
    assert read(cluster, planned, smallBatchOffsets=4) is None
    assert read(cluster, planned, smallBatchOffsets=0) is None
    assert read(cluster, []) is None, "an empty plan has nothing to hand over"


@pytest.mark.parametrize("given", [{"minPartitions": 2}, {"maxRecordsPerPartition": 2}])
def test_a_batch_that_the_options_divide_is_left_to_tasks(cluster, given):
    assert read(cluster, plan_of(cluster, (0, 3), (0, 2)), **given) is None


def test_few_records_that_are_large_are_left_to_tasks(cluster, monkeypatch):
    planned = plan_of(cluster, (0, 3))
    (batch,) = read_small_batch(cluster, planned, read_options(QueryKind.STREAM))
    monkeypatch.setattr(small_batch, "MAX_BYTES", batch.nbytes)
    assert read(cluster, planned) == ["a", "b", "c"]
    monkeypatch.setattr(small_batch, "MAX_BYTES", batch.nbytes - 1)
    assert read(cluster, planned) is None


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_a_recreated_topic_is_left_to_tasks_which_report_it(cluster, fail_on_data_loss):
    planned = plan_of(cluster, (0, 3))
    cluster.delete_topic("t")
    assert read(cluster, planned, failOnDataLoss=fail_on_data_loss) is None
    cluster.create_topic("t")
    cluster.add("t", "x", "y", "z")
    assert read(cluster, planned, failOnDataLoss=fail_on_data_loss) is None


def test_a_loss_is_left_to_tasks_which_report_it(cluster):
    cluster.add("t", "f")
    planned = plan_of(cluster, (0, 4))
    cluster.delete_records(TopicPartition("t", 0), 3)
    assert read(cluster, planned) is None


def test_without_fail_on_data_loss_no_rows_are_handed_over(cluster):
    planned = plan_of(cluster, (0, 3))
    assert read(cluster, planned) == ["a", "b", "c"]
    assert read(cluster, planned, failOnDataLoss="false") is None


def test_a_batch_of_many_partitions_is_left_to_parallel_tasks(cluster, monkeypatch):
    planned = plan_of(cluster, (0, 3))
    monkeypatch.setattr(small_batch, "MAX_RANGES", len(planned))
    assert read(cluster, planned) == ["a", "b", "c"]
    monkeypatch.setattr(small_batch, "MAX_RANGES", len(planned) - 1)
    assert read(cluster, planned) is None


def test_a_failed_fetch_is_left_to_tasks(cluster, caplog):
    class Faulty:
        def __getattr__(self, name):
            return getattr(cluster, name)

        def fetch(self, *arguments, **given):
            raise OSError("the disk is gone")

    with caplog.at_level("INFO", logger="spark_streamlog"):
        assert read_small_batch(Faulty(), plan_of(cluster, (0, 3)), read_options(QueryKind.STREAM)) is None
    assert "the disk is gone" in caplog.text


def test_a_plan_with_an_unknown_topic_is_left_to_tasks(cluster):
    (planned,) = plan_of(cluster, (0, 3))
    assert read(cluster, [dataclasses.replace(planned, topic_id=None)]) is None


def test_every_batch_of_a_run_can_be_read_by_the_planning_process(cluster):
    run = StreamRun(cluster, startingOffsets="earliest", maxOffsetsPerTrigger=2)
    rows, start = [], run.planner.initial_offset()
    while (end := run.planner.latest_offset(start, max_offsets=2, is_limited=True)) != start:
        batches = read_small_batch(cluster, run.planner.plan(start, end), run.options)
        rows += values_of(batches)
        start = end
    assert sorted(rows) == ["a", "b", "c", "d", "e"]
