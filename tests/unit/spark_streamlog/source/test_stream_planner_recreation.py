"""A topic deleted and made again while the query is down, and what a crash at any point makes of it."""

import json
from uuid import uuid4

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.read_query import StreamRun, at, read_options

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import ConditionError
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.source.topic_memory import memory_of

OLD = ["a", "b", "c"]
COUNTS = pytest.mark.parametrize("new_count", [0, 1, 3, 5], ids=["none", "fewer", "equal", "more"])


@pytest.fixture
def cluster():
    cluster = InMemoryCluster()
    cluster.create_topic("t")
    cluster.add("t", *OLD)
    return cluster


@pytest.fixture
def location(tmp_path):
    (tmp_path / "metadata").write_text(json.dumps({"id": str(uuid4())}))
    return str(tmp_path)


def run(cluster, location, checkpoint=None, *, available_now=False, **given):
    """A new process that plans the query: what it knows of earlier ones is beside the checkpoint."""
    named = {"startingOffsets": "earliest", "failOnDataLoss": False} | given
    if location is None:
        return StreamRun(cluster, checkpoint, available_now=available_now, **named)
    memory = memory_of(read_options(QueryKind.STREAM, checkpointLocation=location, **named))
    return StreamRun(cluster, checkpoint, available_now=available_now, memory=memory, **named)


def recreate(cluster, count, topic="t", partition_count=1):
    cluster.delete_topic(topic)
    cluster.create_topic(topic, partition_count=partition_count)
    new = [f"new{number}" for number in range(count)]
    if new:
        cluster.add(topic, *new)
    return new


def stopped_behind_all(cluster, location, **given):
    stream = run(cluster, location, **given)
    stream.run_all()
    return stream.committed


@COUNTS
def test_with_false_the_new_topic_is_read_from_its_start(cluster, location, new_count):
    checkpoint = stopped_behind_all(cluster, location)
    new = recreate(cluster, new_count)
    stream = run(cluster, location, checkpoint)
    assert stream.run_all() == new
    cluster.add("t", "more")
    assert run(cluster, location, stream.committed).run_all() == ["more"]


@COUNTS
def test_with_true_every_start_reports_the_loss(cluster, location, new_count):
    checkpoint = stopped_behind_all(cluster, location, failOnDataLoss=True)
    recreate(cluster, new_count)
    for _ in range(2):
        with pytest.raises(ConditionError, match=r"TOPIC_RECREATED\] The topic t was deleted and recreated"):
            run(cluster, location, checkpoint, failOnDataLoss=True).run_batch()
    stream = run(cluster, location, checkpoint)
    stream.run_all()
    cluster.add("t", "more")
    assert run(cluster, location, stream.committed, failOnDataLoss=True).run_all() == ["more"]


@COUNTS
def test_a_crash_before_spark_logs_the_first_batch_of_the_new_topic_loses_nothing(cluster, location, new_count):
    checkpoint = stopped_behind_all(cluster, location)
    new = recreate(cluster, new_count)
    run(cluster, location, checkpoint).next_end()
    assert run(cluster, location, checkpoint).run_all() == new


@COUNTS
def test_a_crash_after_spark_logs_the_first_batch_of_the_new_topic_repeats_nothing(cluster, location, new_count):
    checkpoint = stopped_behind_all(cluster, location)
    new = recreate(cluster, new_count)
    _, end = run(cluster, location, checkpoint).next_end()
    stream = run(cluster, location, checkpoint)
    assert stream.run_batch(end) + stream.run_all() == new


@COUNTS
def test_a_logged_batch_of_the_old_topic_is_lost_and_has_no_row_of_the_new_one(cluster, location, new_count):
    checkpoint = stopped_behind_all(cluster, location)
    cluster.add("t", "logged and not read")
    _, end = run(cluster, location, checkpoint).next_end()
    new = recreate(cluster, new_count)
    with pytest.raises(ConditionError, match="TOPIC_RECREATED"):
        run(cluster, location, checkpoint, failOnDataLoss=True).run_batch(end)
    stream = run(cluster, location, checkpoint)
    assert stream.run_batch(end) == []
    assert stream.run_all() == new


@COUNTS
def test_a_logged_first_batch_of_the_old_topic_is_lost(cluster, location, new_count):
    _, end = run(cluster, location).next_end()
    new = recreate(cluster, new_count)
    stream = run(cluster, location)
    assert stream.run_batch(end) == []
    assert stream.run_all() == new


@COUNTS
def test_a_topic_recreated_twice_is_read_from_the_start_of_the_last_one(cluster, location, new_count):
    checkpoint = stopped_behind_all(cluster, location)
    recreate(cluster, 2)
    _, end = run(cluster, location, checkpoint).next_end()
    new = recreate(cluster, new_count)
    stream = run(cluster, location, checkpoint)
    assert stream.run_batch(end) == []
    assert stream.run_all() == new


def test_a_topic_recreated_repeatedly_is_read_once_each_time(cluster, location):
    checkpoint = stopped_behind_all(cluster, location)
    for count in (3, 3, 1, 4, 3):
        new = recreate(cluster, count)
        stream = run(cluster, location, checkpoint, maxOffsetsPerTrigger=2)
        assert stream.run_all() == new
        checkpoint = stream.committed


@pytest.mark.parametrize(
    "given", [{"subscribe": "t,u"}, {"subscribePattern": "."}, {"assign": '{"t":[0,1],"u":[0]}'}], ids=str
)
def test_of_several_topics_only_the_recreated_one_is_read_from_its_start(cluster, location, given):
    cluster.create_partitions("t", 2)
    cluster.add("t", "x", partition=1)
    cluster.create_topic("u")
    cluster.add("u", "u0")
    checkpoint = stopped_behind_all(cluster, location, **given)
    recreate(cluster, 4, partition_count=2)
    cluster.add("t", "y", partition=1)
    cluster.add("u", "u1")
    stream = run(cluster, location, checkpoint, **given)
    assert sorted(stream.run_all()) == ["new0", "new1", "new2", "new3", "u1", "y"]
    assert stream.committed == at(t_0=4, t_1=1, u_0=2)


def test_a_topic_subscribed_later_does_not_hide_the_known_ids(cluster, location):
    checkpoint = stopped_behind_all(cluster, location)
    cluster.create_topic("u")
    new = recreate(cluster, 4)
    assert run(cluster, location, checkpoint, subscribe="t,u").run_all() == new


def test_a_checkpoint_set_back_to_an_older_batch_is_also_known(cluster, location):
    stream = run(cluster, location, maxOffsetsPerTrigger=1)
    stream.run_all()
    new = recreate(cluster, 5)
    assert run(cluster, location, at(t_0=2)).run_all() == new


def test_a_run_with_available_now_detects_it(cluster, location):
    checkpoint = stopped_behind_all(cluster, location)
    new = recreate(cluster, 5)
    assert run(cluster, location, checkpoint, available_now=True).run_all() == new


def test_a_log_truncated_while_the_query_is_down_repeats_nothing(cluster, location):
    checkpoint = stopped_behind_all(cluster, location)
    cluster.truncate("t", 0)
    cluster.add("t", "z")
    stream = run(cluster, location, checkpoint)
    assert stream.run_all() == []
    cluster.add("t", "d")
    assert stream.run_all() == ["d"]


# -- where the ids of the checkpoint are not known --


def test_the_first_restart_with_a_checkpoint_of_an_older_version_learns_the_ids(cluster, location):
    checkpoint = stopped_behind_all(cluster, None)
    stream = run(cluster, location, checkpoint)
    assert stream.run_all() == []
    new = recreate(cluster, 5)
    assert run(cluster, location, stream.committed).run_all() == new


@pytest.mark.parametrize("new_count", [0, 1, 2])
@pytest.mark.parametrize("is_logged", [False, True])
def test_an_end_below_the_start_is_treated_as_a_recreated_topic(cluster, new_count, is_logged):
    checkpoint = stopped_behind_all(cluster, None)
    new = recreate(cluster, new_count)
    with pytest.raises(ConditionError, match="PARTITION_OFFSET_CHANGED"):
        run(cluster, None, checkpoint, failOnDataLoss=True).run_batch()
    _, end = run(cluster, None, checkpoint).next_end()
    stream = run(cluster, None, checkpoint)
    values = stream.run_batch(end) if is_logged else []
    assert values + stream.run_all() == new


@pytest.mark.parametrize("is_logged", [False, True])
def test_assumed_ids_are_not_stored_as_known(cluster, location, is_logged):
    checkpoint = stopped_behind_all(cluster, None)
    new = recreate(cluster, 2)
    _, end = run(cluster, location, checkpoint).next_end()
    stream = run(cluster, location, checkpoint)
    values = stream.run_batch(end) if is_logged else []
    assert values + stream.run_all() == new


def test_without_stored_ids_a_recreated_topic_above_the_start_is_not_detected(cluster):
    checkpoint = stopped_behind_all(cluster, None)
    recreate(cluster, 5)
    assert run(cluster, None, checkpoint, failOnDataLoss=True).run_all() == ["new3", "new4"]


# -- in the consumer group --


@pytest.mark.parametrize("pin", [{}, {"pinRetention": "7d"}], ids=["plain", "pinned"])
@pytest.mark.parametrize("is_logged", [False, True])
@COUNTS
def test_the_group_shows_which_of_several_topics_was_recreated(cluster, new_count, is_logged, pin):
    cluster.create_topic("u")
    cluster.add("u", "u0")
    given = {"subscribe": "t,u", "groupId": "g"} | pin
    checkpoint = stopped_behind_all(cluster, None, **given)
    new = recreate(cluster, new_count)
    with pytest.raises(ConditionError, match="TOPIC_RECREATED"):
        run(cluster, None, checkpoint, failOnDataLoss=True, **given).run_batch()
    _, end = run(cluster, None, checkpoint, **given).next_end()
    stream = run(cluster, None, checkpoint, **given)
    values = stream.run_batch(end) if is_logged else []
    assert values + stream.run_all() == new


@pytest.mark.parametrize("names", ["t", "t,u"])
@pytest.mark.parametrize("is_logged", [False, True])
@COUNTS
def test_the_group_tells_that_every_topic_of_the_query_was_recreated(cluster, new_count, is_logged, names):
    # The group's offsets are deleted with the topics, and what their metadata says.
    cluster.create_topic("u")
    given = {"subscribe": names, "groupId": "g"}
    checkpoint = stopped_behind_all(cluster, None, **given)
    new = [value for name in names.split(",") for value in recreate(cluster, new_count, topic=name)]
    assert cluster.fetch_offsets("g") == {}
    with pytest.raises(ConditionError, match="TOPIC_RECREATED"):
        run(cluster, None, checkpoint, failOnDataLoss=True, **given).run_batch()
    _, end = run(cluster, None, checkpoint, **given).next_end()
    stream = run(cluster, None, checkpoint, **given)
    values = stream.run_batch(end) if is_logged else []
    assert sorted(values + stream.run_all()) == sorted(new)


def test_a_batch_that_was_logged_before_the_only_topic_was_recreated_gives_no_row_of_the_new_one(cluster):
    checkpoint = stopped_behind_all(cluster, None, groupId="g")
    cluster.add("t", "logged and not read")
    _, end = run(cluster, None, checkpoint, groupId="g").next_end()
    new = recreate(cluster, 5)
    stream = run(cluster, None, checkpoint, groupId="g")
    assert stream.run_batch(end) == []
    assert stream.run_all() == new


def test_a_query_that_continued_without_its_group_does_not_report_an_earlier_recreation(cluster):
    checkpoint = stopped_behind_all(cluster, None, groupId="g")
    recreate(cluster, 1)
    stream = run(cluster, None, checkpoint)
    stream.run_all()
    cluster.add("t", *OLD)
    stream.run_all()
    cluster.add("t", "d")
    assert run(cluster, None, stream.committed, failOnDataLoss=True, groupId="g").run_all() == ["d"]


def test_group_offsets_older_than_the_checkpoint_are_ignored(cluster):
    cluster.create_topic("u")
    given = {"subscribe": "t,u", "groupId": "g"}
    checkpoint = stopped_behind_all(cluster, None, **given)
    recreate(cluster, 1)
    stream = run(cluster, None, checkpoint, subscribe="t,u")
    stream.run_all()
    cluster.add("t", *OLD)
    stream.run_all()
    assert stream.committed == at(t_0=4, u_0=0)
    cluster.add("t", "d")
    assert run(cluster, None, stream.committed, failOnDataLoss=True, **given).run_all() == ["d"]


def test_ids_too_long_for_the_group_are_left_out_and_the_progress_is_stored(cluster):
    names = [f"a topic with a name of a certain length {number}" for number in range(60)]
    for name in names:
        cluster.create_topic(name)
    stopped_behind_all(cluster, None, subscribe=",".join(names), groupId="g")
    stored = cluster.fetch_offsets("g")
    assert len(stored) == 60
    assert {each.metadata for each in stored.values()} == {""}


def test_the_ids_stand_beside_the_offsets_of_three_topics_at_most(cluster):
    for name in "uvw":
        cluster.create_topic(name, partition_count=2)
    stopped_behind_all(cluster, None, subscribe="t,u,v,w", groupId="g")
    stored = cluster.fetch_offsets("g")
    bearers = {tp for tp, each in stored.items() if each.metadata.startswith("streamlog-topic-ids:")}
    assert bearers == {TopicPartition("t", 0), TopicPartition("u", 0), TopicPartition("v", 0)}
