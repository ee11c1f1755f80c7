import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.read_query import batch_values, read_all, read_options

from broker_core.cluster import GroupOffset
from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import ConditionError
from spark_streamlog.source.batch_planner import plan_batch
from spark_streamlog.source.offset_reader import OffsetReader


@pytest.fixture
def cluster():
    cluster = InMemoryCluster()
    cluster.create_topic("t", partition_count=2)
    cluster.add("t", "a0", "a1", "a2", partition=0, timestamps_ms=(100, 200, 300))
    cluster.add("t", "b0", "b1", partition=1, timestamps_ms=(150, 250))
    return cluster


def plan(cluster, **given):
    options = read_options(**given)
    return plan_batch(OffsetReader(cluster, options), options)


def as_text(planned):
    return [f"{p.topic_partition} {p.from_offset}:{p.until_offset}" for p in planned]


def test_by_default_all_is_read_with_both_ends_open(cluster):
    assert as_text(plan(cluster)) == ["t-0 -2:-1", "t-1 -2:-1"]
    assert batch_values(cluster) == ["a0", "a1", "a2", "b0", "b1"]


def test_a_plan_that_runs_again_sees_new_data_even_in_an_empty_partition(cluster):
    cluster.create_topic("u", partition_count=1)
    options = read_options(subscribe="t,u")
    planned = plan_batch(OffsetReader(cluster, options), options)
    cluster.add("t", "a3")
    cluster.add("u", "c0")
    assert sorted(read_all(cluster, planned, options)) == ["a0", "a1", "a2", "a3", "b0", "b1", "c0"]


def test_a_fixed_end_stays_fixed(cluster):
    options = read_options(endingOffsets='{"t":{"0":2,"1":0}}')
    planned = plan_batch(OffsetReader(cluster, options), options)
    cluster.add("t", "a3")
    assert as_text(planned) == ["t-0 -2:2"]
    assert read_all(cluster, planned, options) == ["a0", "a1"]


def test_only_the_outer_ends_of_a_split_partition_are_open(cluster):
    assert as_text(plan(cluster, maxRecordsPerPartition=1)) == [
        "t-0 -2:1", "t-0 1:2", "t-0 2:-1", "t-1 -2:1", "t-1 1:-1",
    ]  # fmt: skip
    assert batch_values(cluster, minPartitions=5) == ["a0", "a1", "a2", "b0", "b1"]


def test_only_a_range_with_fixed_offsets_is_bound_to_the_topic_id(cluster):
    topic_id = cluster.describe_topics()["t"].topic_id
    assert {p.topic_id for p in plan(cluster)} == {None}
    assert {p.topic_id for p in plan(cluster, maxRecordsPerPartition=1)} == {topic_id}
    assert {p.topic_id for p in plan(cluster, startingOffsets='{"t":{"0":1,"1":1}}')} == {topic_id}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"startingOffsets": '{"t":{"0":1,"1":-2}}'}, ["a1", "a2", "b0", "b1"]),
        ({"startingOffsets": '{"t":"earliest"}', "endingOffsets": '{"t":{"0":1,"1":-1}}'}, ["a0", "b0", "b1"]),
        ({"startingTimestamp": 200}, ["a1", "a2", "b1"]),
        ({"startingTimestamp": 200, "endingTimestamp": 300}, ["a1", "b1"]),
        ({"endingTimestamp": 200}, ["a0", "b0"]),
        ({"endingTimestamp": 10_000}, ["a0", "a1", "a2", "b0", "b1"]),
        ({"startingOffsetsByTimestamp": '{"t":{"0":300,"1":0}}'}, ["a2", "b0", "b1"]),
        ({"startingTimestamp": 300, "startingOffsetsByTimestampStrategy": "latest"}, ["a2"]),
        ({"assign": '{"t":[1]}'}, ["b0", "b1"]),
        ({"subscribePattern": "^t$"}, ["a0", "a1", "a2", "b0", "b1"]),
        ({"subscribePattern": "nothing"}, []),
    ],
)
def test_starting_and_ending_limits_are_resolved(cluster, given, expected):
    assert batch_values(cluster, **given) == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [("latest-1", ["a2", "b1"]), ("latest-2", ["a1", "a2", "b0", "b1"]), ("group:g", ["a2", "b0", "b1"]), ("-1s", [])],
)
def test_relative_starts_are_resolved(cluster, start, expected):
    cluster.commit_offsets("g", {TopicPartition("t", 0): GroupOffset(offset=2)})
    assert batch_values(cluster, startingOffsets=start) == expected


def test_a_relative_start_is_fixed_when_planned_and_the_end_stays_open(cluster):
    options = read_options(startingOffsets="latest-1")
    planned = plan_batch(OffsetReader(cluster, options), options)
    assert as_text(planned) == ["t-0 2:-1", "t-1 1:-1"]
    cluster.add("t", "a3")
    assert read_all(cluster, planned, options) == ["a2", "a3", "b1"]


def test_a_group_offset_outside_of_the_log_is_treated_like_a_given_offset(cluster):
    cluster.commit_offsets("g", {TopicPartition("t", 0): GroupOffset(offset=1)})
    cluster.commit_offsets("ahead", {TopicPartition("t", 0): GroupOffset(offset=9)})
    cluster.delete_records(TopicPartition("t", 0), 2)
    with pytest.raises(ConditionError, match=r"COULD_NOT_READ_OFFSET_RANGE.*\[1, 2\) of t-0"):
        batch_values(cluster, startingOffsets="group:g")
    assert batch_values(cluster, startingOffsets="group:g", failOnDataLoss=False) == ["a2", "b0", "b1"]
    with pytest.raises(ConditionError, match="RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"):
        batch_values(cluster, startingOffsets="group:ahead")


def test_a_start_after_an_open_transaction_has_no_rows_yet(cluster):
    cluster.add("t", "open", producer_id=1)
    cluster.add("t", "behind")
    options = read_options(startingOffsets='{"t":{"0":4,"1":-2}}')
    planned = plan_batch(OffsetReader(cluster, options), options)
    assert read_all(cluster, planned, options) == ["b0", "b1"]
    cluster.write_marker("t", 1, is_commit=True)
    assert sorted(read_all(cluster, planned, options)) == ["b0", "b1", "behind"]


def test_a_starting_timestamp_without_a_matching_record_is_refused(cluster):
    with pytest.raises(ConditionError, match=r"STREAMLOG_NO_OFFSET_FOR_TIMESTAMP.*t-1.*startingTimestamp"):
        batch_values(cluster, startingTimestamp=300)


@pytest.mark.parametrize(
    "given",
    [
        {"startingOffsets": '{"t":{"0":9,"1":0}}'},
        {"startingTimestamp": 200, "endingOffsets": '{"t":{"0":0,"1":0}}'},
    ],
)
def test_a_resolved_start_above_the_resolved_end_is_refused(cluster, given):
    with pytest.raises(ConditionError, match="RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET") as error:
        batch_values(cluster, **given)
    for option in ("startingOffsets", "startingTimestamp", "endingOffsets"):
        assert option in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "t,T"}, "subscribe names topics or partitions that do not exist in /log: T. Existing topics: t"),
        ({"assign": '{"t":[0,5]}'}, "assign names topics or partitions that do not exist in /log: t-5"),
    ],
)
def test_missing_topics_and_partitions_are_refused_by_name(cluster, given, said):
    with pytest.raises(ConditionError, match="STREAMLOG_UNKNOWN_TOPICS") as refusal:
        batch_values(cluster, **given)
    assert said in str(refusal.value)


def test_planning_retries_if_a_topic_is_deleted_meanwhile(cluster):
    cluster.create_topic("u")
    asked = []
    list_offsets = cluster.list_offsets

    def vanishing(partitions, *rest):
        if not asked:
            cluster.delete_topic("u")
        asked.append(set(partitions))
        return list_offsets(partitions, *rest)

    cluster.list_offsets = vanishing
    assert batch_values(cluster, subscribePattern=".*") == ["a0", "a1", "a2", "b0", "b1"]
    assert TopicPartition("u", 0) in asked[0]
