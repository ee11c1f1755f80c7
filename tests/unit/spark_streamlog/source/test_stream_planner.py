import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.read_query import StreamRun, at

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import ConditionError

T0 = TopicPartition("t", 0)


@pytest.fixture
def cluster():
    cluster = InMemoryCluster()
    cluster.create_topic("t")
    return cluster


def run(cluster, checkpoint=None, **given):
    return StreamRun(cluster, checkpoint, **({"startingOffsets": "earliest"} | given))


def recreate(cluster, *values, topic="t", partition_count=1):
    cluster.delete_topic(topic)
    cluster.create_topic(topic, partition_count=partition_count)
    if values:
        cluster.add(topic, *values)


# -- where a query starts --


def test_a_query_reads_from_earliest_and_then_new_records(cluster):
    cluster.add("t", "a", "b")
    stream = run(cluster)
    assert stream.run_batch() == ["a", "b"]
    assert stream.run_batch() is None
    cluster.add("t", "c")
    assert stream.run_batch() == ["c"]
    assert stream.committed == at(t_0=3)


def test_a_query_that_starts_at_latest_records_its_start_in_an_empty_first_batch(cluster):
    cluster.add("t", "old")
    stream = run(cluster, startingOffsets="latest")
    start, _ = stream.next_end()
    assert start == at(t_0=1)
    stream = run(cluster, startingOffsets="latest")
    stream.planner.initial_offset()
    cluster.add("t", "new")
    assert stream.run_batch() == []
    assert stream.committed == at(t_0=1)
    assert stream.run_all() == ["new"]


def test_a_repeated_first_batch_of_a_query_from_latest_loses_nothing(cluster):
    cluster.add("t", "old")
    _, end = run(cluster, startingOffsets="latest").next_end()
    cluster.add("t", "written while the query was down")
    stream = run(cluster, startingOffsets="latest")
    assert stream.run_batch(end) == []
    assert stream.run_all() == ["written while the query was down"]


def test_a_repeated_first_batch_leaves_a_new_topic_to_the_next_batch(cluster):
    cluster.add("t", "a")
    _, end = run(cluster, subscribePattern=".*").next_end()
    cluster.create_topic("u")
    cluster.add("u", "b")
    stream = run(cluster, subscribePattern=".*")
    assert stream.run_batch(end) == ["a"]
    assert stream.run_all() == ["b"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"startingOffsets": '{"t":{"0":1}}'}, ["b", "c"]),
        ({"startingOffsets": '{"t":{"0":-2}}'}, ["a", "b", "c"]),
        ({"startingOffsets": '{"t":{"0":-1}}'}, []),
        ({"startingOffsets": '{"t":"latest"}'}, []),
        ({"startingOffsets": '{"t":{"0":3}}'}, []),
        ({"startingTimestamp": 20}, ["b", "c"]),
        ({"startingOffsetsByTimestamp": '{"t":{"0":21}}'}, ["c"]),
        ({"startingTimestamp": 31, "startingOffsetsByTimestampStrategy": "latest"}, []),
    ],
)
def test_every_kind_of_start_is_resolved(cluster, given, expected):
    cluster.add("t", "a", "b", "c", timestamps_ms=(10, 20, 30))
    stream = run(cluster, **given)
    assert stream.run_all() == expected
    cluster.add("t", "d")
    assert stream.run_all() == ["d"]


def test_a_start_without_a_matching_timestamp_is_refused(cluster):
    with pytest.raises(ConditionError, match="STREAMLOG_NO_OFFSET_FOR_TIMESTAMP"):
        run(cluster, startingTimestamp=31).run_batch()


def test_a_start_is_used_once_and_then_the_checkpoint(cluster):
    cluster.add("t", "a", "b", "c")
    assert run(cluster, at(t_0=2)).run_all() == ["c"]


@pytest.mark.parametrize(("offset", "moved"), [(0, 2), (9, 3)])
def test_a_given_start_outside_of_the_log_is_a_loss(cluster, offset, moved):
    cluster.add("t", "a", "b", "c")
    cluster.delete_records(T0, 2)
    given = {"startingOffsets": f'{{"t":{{"0":{offset}}}}}'}
    with pytest.raises(ConditionError, match=r"START_OFFSET_RESET.*it starts at"):
        run(cluster, **given).run_batch()
    assert run(cluster, failOnDataLoss=False, **given).planner.initial_offset() == at(t_0=moved)


def test_a_new_query_of_a_topic_that_does_not_exist_is_refused_by_name(cluster):
    with pytest.raises(ConditionError, match=r"STREAMLOG_UNKNOWN_TOPICS.*: nope"):
        run(cluster, subscribe="nope").run_batch()


def test_a_pattern_can_find_its_first_topic_later(cluster):
    stream = run(cluster, subscribePattern="later", startingOffsets="latest")
    assert stream.run_batch() == []
    cluster.create_topic("later")
    cluster.add("later", "a")
    assert stream.run_all() == ["a"]


# -- how far a batch goes --


def test_the_maximum_per_trigger_is_shared_by_size_and_everything_is_read_once(cluster):
    cluster.create_partitions("t", 3)
    for partition, values in enumerate([range(100, 201), range(10, 21), [1]]):
        cluster.add("t", *map(str, values), partition=partition)
    stream = run(cluster, maxOffsetsPerTrigger=10)
    assert stream.run_batch() == [*map(str, range(100, 108)), "10", "1"]
    assert stream.run_batch() == [*map(str, range(108, 117)), "11"]
    stream = run(cluster, stream.committed, maxOffsetsPerTrigger=10)
    assert stream.run_batch() == [*map(str, range(117, 126)), "12"]


@pytest.mark.parametrize("limit", [2**63 - 1, 2**62, 1])
def test_a_limit_of_64_bits_does_not_overflow(cluster, limit):
    cluster.add("t", "a", "b", "c")
    assert run(cluster, maxOffsetsPerTrigger=limit).run_all() == ["a", "b", "c"]


def test_limits_are_ignored_if_spark_requests_all_offsets(cluster):
    cluster.add("t", "a", "b", "c")
    stream = run(cluster, minOffsetsPerTrigger=1, maxOffsetsPerTrigger=1)
    assert stream.run_batch(is_limited=False) == ["a", "b", "c"]


def test_the_minimum_delays_a_batch_until_the_maximum_delay(cluster):
    cluster.add("t", *map(str, range(16)))
    stream = run(cluster, minOffsetsPerTrigger=15, maxTriggerDelay="5s")
    assert len(stream.run_batch()) == 16, "the first batch always fires"
    cluster.add("t", *map(str, range(14)))
    assert stream.run_batch() is None
    cluster.add("t", "enough")
    assert len(stream.run_batch()) == 15
    cluster.add("t", "few")
    stream.now_ms = 4_999
    assert stream.run_batch() is None
    stream.now_ms = 5_000
    assert stream.run_batch() == ["few"]


def test_the_minimum_is_checked_before_the_maximum(cluster):
    cluster.create_partitions("t", 3)
    for partition, count in enumerate([21, 11, 1]):
        cluster.add("t", *["x"] * count, partition=partition)
    stream = run(cluster, minOffsetsPerTrigger=15, maxOffsetsPerTrigger=20, maxTriggerDelay="5s")
    assert len(stream.run_batch()) == 19
    assert stream.run_batch() is None
    cluster.add("t", *["x"] * 19)
    assert 18 <= len(stream.run_batch()) <= 20
    stream.now_ms = 5_100
    assert len(stream.run_all()) == 33 + 19 - 19 - len(stream.batches[1])


def test_offsets_below_the_log_start_do_not_count_towards_the_maximum(cluster):
    cluster.add("t", "a")
    stream = run(cluster, maxOffsetsPerTrigger=2, failOnDataLoss=False)
    stream.run_all()
    for number in range(100):
        cluster.add("t", str(number))
    cluster.delete_records(T0, 99)
    assert stream.run_batch() == ["98", "99"]


def test_min_partitions_splits_the_batches_of_a_stream(cluster):
    cluster.add("t", *map(str, range(10)))
    stream = run(cluster, minPartitions=4)
    start, end = stream.next_end()
    assert [(p.from_offset, p.until_offset) for p in stream.planner.plan(start, end)] == [
        (0, 2), (2, 4), (4, 7), (7, 10),
    ]  # fmt: skip


def test_planning_an_empty_range_changes_nothing(cluster):
    cluster.add("t", "a")
    stream = run(cluster, at(t_0=0))
    assert stream.planner.plan(at(t_0=0), at(t_0=0)) == []
    assert stream.run_all() == ["a"]


def test_the_reported_latest_offset_ignores_the_limit(cluster):
    cluster.add("t", "a", "b", "c")
    stream = run(cluster, maxOffsetsPerTrigger=1)
    assert stream.planner.reported_latest_offset() is None
    stream.run_batch()
    assert stream.planner.reported_latest_offset() == at(t_0=3)


# -- partitions that come --


def test_an_added_partition_is_read_from_its_start(cluster):
    cluster.add("t", "a")
    stream = run(cluster, startingOffsets="latest")
    stream.run_all()
    cluster.create_partitions("t", 2)
    cluster.add("t", "b", partition=1)
    assert stream.run_all() == ["b"]


def test_offsets_by_topic_accept_a_topic_that_appears_later(cluster):
    cluster.add("t", "a")
    stream = run(cluster, subscribePattern=".*", startingOffsets='{"t":"earliest"}')
    assert stream.run_all() == ["a"]
    cluster.create_topic("u")
    cluster.add("u", "b")
    assert stream.run_all() == ["b"]


def test_an_added_partition_that_does_not_start_at_zero_is_a_loss(cluster):
    stream = run(cluster, failOnDataLoss=True)
    stream.run_all()
    cluster.create_partitions("t", 2)
    cluster.add("t", "a", "b", "c", partition=1)
    cluster.delete_records(TopicPartition("t", 1), 2)
    with pytest.raises(
        ConditionError, match=r"ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO.*t-1.*starts at offset 2"
    ):
        stream.run_batch()
    assert run(cluster, at(t_0=0), failOnDataLoss=False).run_all() == ["c"]


# -- partitions that go --


def test_a_deleted_topic_among_others_is_a_loss_and_with_false_the_others_are_read(cluster):
    cluster.create_topic("u")
    cluster.add("t", "a")
    cluster.add("u", "b")
    stream = run(cluster, subscribe="t,u")
    stream.run_all()
    cluster.delete_topic("u")
    cluster.add("t", "c")
    tolerant = run(cluster, stream.committed, subscribe="t,u", failOnDataLoss=False)
    with pytest.raises(ConditionError, match=r"PARTITIONS_DELETED.*u-0"):
        stream.run_batch()
    assert tolerant.run_all() == ["c"]
    assert tolerant.committed == at(t_0=2)


@pytest.mark.parametrize("narrowed", [{"subscribe": "t"}, {"subscribePattern": "^t"}, {"assign": '{"t":[0]}'}], ids=str)
def test_a_topic_that_is_no_longer_subscribed_is_not_called_deleted(cluster, narrowed):
    cluster.create_topic("u")
    cluster.add("t", "a")
    cluster.add("u", "b")
    stream = run(cluster, subscribe="t,u")
    stream.run_all()
    (option,) = narrowed
    cluster.add("t", "c")
    with pytest.raises(ConditionError, match=rf"PARTITIONS_NOT_SUBSCRIBED.*u-0, and {option} no longer names them"):
        run(cluster, stream.committed, **narrowed).run_batch()
    tolerant = run(cluster, stream.committed, failOnDataLoss=False, **narrowed)
    assert tolerant.run_all() == ["c"]
    assert run(cluster, tolerant.committed, **narrowed).run_all() == []


def test_an_offset_without_partitions_is_never_stored(cluster):
    cluster.add("t", "a")
    stream = run(cluster, failOnDataLoss=False)
    stream.run_all()
    topic = cluster._topics.pop("t")
    assert stream.run_batch() is None
    cluster._topics["t"] = topic
    assert stream.run_batch() is None
    cluster.add("t", "b")
    assert stream.run_all() == ["b"]


def test_the_loss_of_all_partitions_fails_the_query_by_default(cluster):
    stream = run(cluster)
    stream.run_batch()
    cluster.delete_topic("t")
    with pytest.raises(ConditionError, match="PARTITIONS_DELETED"):
        stream.run_batch()


def test_offsets_that_go_backwards_briefly_are_requested_again(cluster):
    cluster.add("t", "a", "b")
    stream = run(cluster)
    stream.run_all()
    list_offsets = cluster.list_offsets
    stale_answers = [1, 0]

    def stale(partitions, *rest):
        answer = list_offsets(partitions, *rest)
        if stale_answers:
            found = answer[T0]
            answer[T0] = type(found)(offset=stale_answers.pop(), timestamp_ms=-1)
        return answer

    cluster.list_offsets = stale
    assert stream.run_batch() is None
    assert stale_answers == []


def test_an_end_below_the_start_is_a_loss_and_nothing_is_read_twice(cluster):
    cluster.add("t", "a", "b")
    cluster.add("t", "c")
    stream, tolerant = run(cluster), run(cluster, failOnDataLoss=False)
    stream.run_all()
    tolerant.run_all()
    cluster.truncate("t", 2)
    with pytest.raises(ConditionError, match=r"PARTITION_OFFSET_CHANGED.*t-0 is offset 2, below offset 3"):
        stream.run_batch()
    assert tolerant.run_all() == []
    cluster.add("t", "d")
    assert tolerant.run_all() == ["d"]


# -- topics recreated --


def test_a_topic_recreated_during_the_query_is_a_loss(cluster):
    cluster.add("t", "a")
    stream = run(cluster)
    stream.run_all()
    recreate(cluster, "new0", "new1", "new2")
    with pytest.raises(ConditionError, match=r"TOPIC_RECREATED.*The topic t was deleted"):
        stream.run_batch()


@pytest.mark.parametrize("new_count", [1, 2, 3, 4])
def test_with_false_a_topic_recreated_is_read_from_its_start_wherever_it_ends(cluster, new_count):
    cluster.add("t", "a", "b")
    stream = run(cluster, failOnDataLoss=False)
    stream.run_all()
    new = [f"new{n}" for n in range(new_count)]
    recreate(cluster, *new)
    assert stream.run_all() == new
    cluster.add("t", "more")
    assert stream.run_all() == ["more"]


def test_with_false_a_topic_recreated_is_read_from_its_start_within_the_limits(cluster):
    cluster.add("t", *"abcde")
    stream = run(cluster, failOnDataLoss=False, maxOffsetsPerTrigger=2, minOffsetsPerTrigger=2, maxTriggerDelay="1s")
    stream.run_all()
    recreate(cluster, "new0")
    assert stream.run_batch() is None
    cluster.add("t", "new1", "new2", "new3")
    assert stream.run_batch() == ["new0", "new1"]
    assert stream.run_batch() == ["new2", "new3"]


def test_an_empty_recreated_topic_starts_at_zero(cluster):
    cluster.add("t", "a", "b")
    stream = run(cluster, failOnDataLoss=False)
    stream.run_all()
    recreate(cluster)
    assert stream.run_all() == []
    cluster.add("t", "new0")
    assert stream.run_all() == ["new0"]


def test_a_topic_recreated_during_a_batch_repeats_no_rows(cluster):
    cluster.add("t", "a", "b")
    stream = run(cluster, failOnDataLoss=False)
    start, end = stream.next_end()
    planned = stream.planner.plan(start, end)
    recreate(cluster, "new0", "new1")
    assert {p.topic_id for p in planned} != {cluster.describe_topics()["t"].topic_id}
    stream.committed = end
    assert stream.run_all() == ["new0", "new1"]


def test_a_topic_recreated_between_runs_is_detected_by_its_end(cluster):
    cluster.add("t", "a", "b")
    stream = run(cluster)
    stream.run_all()
    recreate(cluster, "6")
    with pytest.raises(ConditionError, match=r"PARTITION_OFFSET_CHANGED"):
        run(cluster, stream.committed).run_batch()


# -- Trigger.AvailableNow --


def test_a_run_with_available_now_ends_at_the_offsets_of_its_start(cluster):
    cluster.add("t", *map(str, range(15)))
    stream = run(cluster, available_now=True, maxOffsetsPerTrigger=5)
    cluster.add("t", "late")
    cluster.create_partitions("t", 2)
    assert [stream.run_batch(), len(stream.run_all())] == [[*map(str, range(5))], 10]
    assert [len(batch) for batch in stream.batches] == [5, 5, 5]


def test_a_run_from_latest_reads_nothing_and_ends(cluster):
    cluster.add("t", "a")
    stream = run(cluster, available_now=True, startingOffsets="latest")
    cluster.add("t", "late")
    assert stream.run_all() == []
    assert stream.committed == at(t_0=1)
    assert run(cluster, stream.committed, available_now=True).run_all() == ["late"]


def test_the_minimum_does_not_stop_a_run_with_available_now(cluster):
    cluster.add("t", *map(str, range(7)))
    stream = run(cluster, available_now=True, minOffsetsPerTrigger=3, maxOffsetsPerTrigger=3)
    assert len(stream.run_all()) == 7


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_partitions_lost_during_a_run_with_available_now_fail_it(cluster, fail_on_data_loss):
    cluster.create_partitions("t", 5)
    cluster.add("t", *map(str, range(15)))
    stream = run(cluster, available_now=True, maxOffsetsPerTrigger=5, failOnDataLoss=fail_on_data_loss)
    stream.run_batch()
    recreate(cluster, *map(str, range(15)), partition_count=3)
    with pytest.raises(ConditionError, match="LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW"):
        stream.run_batch()


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_partitions_that_shrink_during_a_run_with_available_now_fail_it(cluster, fail_on_data_loss):
    cluster.add("t", *map(str, range(5)))
    cluster.add("t", *map(str, range(10)))
    stream = run(cluster, available_now=True, maxOffsetsPerTrigger=5, failOnDataLoss=fail_on_data_loss)
    stream.run_batch()
    cluster.truncate("t", 5)
    with pytest.raises(ConditionError, match=r"THAN_LATEST_WITH_TRIGGER_AVAILABLENOW.*Now: t-0: 5. End: t-0: 10"):
        stream.run_batch()


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_a_topic_recreated_during_a_run_with_available_now_fails_it(cluster, fail_on_data_loss):
    cluster.add("t", *map(str, range(15)))
    stream = run(cluster, available_now=True, maxOffsetsPerTrigger=5, failOnDataLoss=fail_on_data_loss)
    stream.run_batch()
    recreate(cluster, *map(str, range(15)))
    with pytest.raises(ConditionError, match="TOPIC_RECREATED"):
        stream.run_batch()


def test_an_unfinished_batch_of_an_earlier_run_does_not_fail_the_next_run(cluster):
    cluster.add("t", *map(str, range(15)))
    _, end = run(cluster, available_now=True, maxOffsetsPerTrigger=5).next_end()
    cluster.create_partitions("t", 2)
    cluster.add("t", "b", partition=1)
    stream = run(cluster, available_now=True, maxOffsetsPerTrigger=5)
    assert stream.run_batch(end) == [*map(str, range(5))]
    assert sorted(stream.run_all()) == sorted([*map(str, range(5, 15)), "b"])


def test_for_a_partition_deleted_before_the_run_fail_on_data_loss_decides(cluster):
    cluster.create_topic("u")
    cluster.add("t", "a")
    stream = run(cluster, subscribePattern=".*")
    stream.run_all()
    cluster.delete_topic("u")
    cluster.add("t", "b")
    with pytest.raises(ConditionError, match="PARTITIONS_DELETED"):
        run(cluster, stream.committed, subscribePattern=".*", available_now=True).run_all()
    tolerant = run(cluster, stream.committed, subscribePattern=".*", available_now=True, failOnDataLoss=False)
    assert tolerant.run_all() == ["b"]
