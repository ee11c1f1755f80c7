"""Several ranges in one Spark task: how many tasks there are, and that they read what single ones would."""

from dataclasses import replace

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.read_query import StreamRun, read_options, values_of

from broker_core.model.client_settings import parse_client_settings
from broker_core.model.fetch_start import FetchStart
from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import ConditionError
from spark_streamlog.options.option_reader import LogTarget, QueryKind
from spark_streamlog.source import range_reader, task_plan
from spark_streamlog.source.batch_planner import plan_batch
from spark_streamlog.source.batch_pruning import plan_pruned
from spark_streamlog.source.offset_reader import OffsetReader
from spark_streamlog.source.range_reader import read_ranges
from spark_streamlog.source.task_plan import share_tasks

PARTITION_COUNT = 40


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(task_plan.os, "cpu_count", lambda: 2)


@pytest.fixture
def cluster():
    cluster = InMemoryCluster()
    cluster.create_topic("t", partition_count=PARTITION_COUNT)
    for partition in range(PARTITION_COUNT):
        cluster.add("t", *(f"{partition}:{number}" for number in range(3)), partition=partition)
    return cluster


def batch_tasks(cluster, **given):
    options = read_options(**given)
    offsets = OffsetReader(cluster, options)
    return share_tasks([(one,) for one in plan_batch(offsets, options)], offsets, options)


def everything():
    return sorted(f"{partition}:{number}" for partition in range(PARTITION_COUNT) for number in range(3))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 8),
        ({"maxPartitions": 3}, 3),
        ({"maxPartitions": 1}, 1),
        ({"maxPartitions": 100}, PARTITION_COUNT),
        ({"minPartitions": 10}, PARTITION_COUNT),
        ({"minPartitions": 50}, 40),
        ({"minPartitions": 2, "maxPartitions": 5}, 5),
        ({"maxRecordsPerPartition": 2}, 2 * PARTITION_COUNT),
    ],
)
def test_small_ranges_share_tasks_unless_options_divide_them(cluster, given, expected):
    tasks = batch_tasks(cluster, **given)
    assert len(tasks) == expected
    options = read_options(**given)
    values = [value for task in tasks for value in values_of(read_ranges(cluster, task, options))]
    assert sorted(values) == everything()


def test_a_stream_also_shares_tasks_and_keeps_the_order_within_a_partition(cluster):
    stream = StreamRun(cluster, startingOffsets="earliest", maxPartitions=2)
    start, end = stream.next_end()
    tasks = stream.planner.tasks_of(stream.planner.plan(start, end))
    assert len(tasks) == 2
    values = [value for task in tasks for value in values_of(read_ranges(cluster, task, stream.options))]
    assert sorted(values) == everything()
    for partition in range(PARTITION_COUNT):
        assert [v for v in values if v.startswith(f"{partition}:")] == [f"{partition}:{n}" for n in range(3)]


def test_pieces_of_a_partition_in_a_task_are_in_offset_order(cluster):
    tasks = batch_tasks(cluster, minPartitions=80, maxPartitions=80)
    assert sum(len(task) for task in tasks) > PARTITION_COUNT
    for task in tasks:
        places = [(one.topic_partition, one.planned_offsets) for one in task]
        assert places == sorted(places)


def test_a_large_range_has_its_own_task(cluster, monkeypatch):
    monkeypatch.setattr("spark_streamlog.planning.task_packing.TASK_BYTES", 1000)
    for _ in range(40):
        cluster.add("t", "x" * 1000, partition=7)
    tasks = batch_tasks(cluster)
    (of_7,) = [task for task in tasks if any(one.topic_partition.partition == 7 for one in task)]
    assert len(of_7) == 1


def test_with_only_large_ranges_each_has_its_own_task(cluster, monkeypatch):
    monkeypatch.setattr("spark_streamlog.planning.task_packing.TASK_BYTES", 1)
    assert len(batch_tasks(cluster)) == PARTITION_COUNT


def test_without_known_bytes_ranges_are_weighed_by_offsets(cluster, monkeypatch):
    monkeypatch.setattr("spark_streamlog.planning.task_packing.TASK_BYTES", 2 * 3 * 1024)
    brokers = parse_client_settings({"bootstrap.servers": "localhost:1"})
    options = replace(read_options(), target=LogTarget(brokers=brokers))
    offsets = OffsetReader(cluster, options)
    tasks = share_tasks([(one,) for one in plan_batch(offsets, options)], offsets, options)
    assert len(tasks) == PARTITION_COUNT / 2


def test_a_plan_with_filters_also_shares_tasks(cluster):
    assert len(plan_pruned(cluster, read_options(), []).tasks) == 8


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"maxPartitions": 0}, "maxPartitions must be a whole number from 1"),
        ({"maxPartitions": 2, "minPartitions": 3}, r"minPartitions \(3\) is higher than maxPartitions \(2\)"),
        ({"maxPartitions": 2, "maxRecordsPerPartition": 3}, "cannot be combined"),
    ],
)
@pytest.mark.parametrize("kind", [QueryKind.BATCH, QueryKind.STREAM])
def test_options_that_cannot_be_combined_are_refused(kind, given, said):
    with pytest.raises(ConditionError, match=said):
        read_options(kind, **given)


@pytest.mark.parametrize("kind", [QueryKind.BATCH, QueryKind.STREAM])
def test_an_invalid_count_is_one_complaint(kind):
    with pytest.raises(ConditionError, match=r"1 option\(s\).*minPartitions must be a whole number"):
        read_options(kind, minPartitions=0)


class SeveralAtOnce(InMemoryCluster):
    """A door at which one request brings several partitions, as a broker's answer does: some of them."""

    def __init__(self):
        super().__init__()
        self.asked = []
        self.is_deaf_to = set()

    def fetch_several(self, starts, *, max_bytes, isolation):
        self.asked.append(starts)
        return {
            tp: self.fetch(tp, start.from_offset, max_bytes=1, isolation=isolation, topic_id=start.topic_id)
            for tp, start in starts.items()
            if tp not in self.is_deaf_to
        }


def test_each_range_of_a_shared_request_is_continued_separately(monkeypatch):
    monkeypatch.setattr(range_reader, "SEVERAL_COUNT", 3)
    cluster = SeveralAtOnce()
    cluster.create_topic("t", partition_count=5)
    for number in range(3):
        for partition in range(5):
            cluster.add("t", f"{partition}:{number}", partition=partition)
    cluster.is_deaf_to = {TopicPartition("t", 1)}
    stream = StreamRun(cluster, startingOffsets="earliest")
    start, end = stream.next_end()
    planned = stream.planner.plan(start, end)
    values = values_of(read_ranges(cluster, planned, stream.options))
    assert values == [f"{partition}:{number}" for partition in range(5) for number in range(3)]
    topic_id = cluster.describe_topics()["t"].topic_id
    first, second = cluster.asked
    assert first == {TopicPartition("t", n): FetchStart(from_offset=0, topic_id=topic_id) for n in range(3)}
    assert len(second) == 2
    answered_together, read_on, fetched_alone = 4, 4, 1
    assert cluster.fetch_count == answered_together + read_on + fetched_alone
