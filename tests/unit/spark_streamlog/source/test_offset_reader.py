import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.read_query import at, read_options

from broker_core.cluster import GroupOffset
from broker_core.model.exceptions import UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import ConditionError
from spark_streamlog.planning.offset_limits import (
    EARLIEST,
    LATEST,
    BeforeEnd,
    BeforeNow,
    CommittedByGroup,
    Earliest,
    GlobalTimestamp,
)
from spark_streamlog.source.offset_reader import OffsetReader


@pytest.fixture
def cluster():
    cluster = InMemoryCluster()
    cluster.create_topic("t", partition_count=2)
    cluster.add("t", "a", "b", "c", timestamps_ms=(10, 20, 30))
    return cluster


def reader(cluster, sleeps=None, **given):
    sleep = (lambda seconds: None) if sleeps is None else sleeps.append
    return OffsetReader(cluster, read_options(**given), sleep=sleep, now_ms=lambda: 35)


def test_the_assignment_has_the_ids_of_its_topics(cluster):
    cluster.create_topic("other")
    found = reader(cluster).assignment()
    assert found.partitions == at(t_0=0, t_1=0).keys()
    assert found.topic_ids == {"t": cluster.describe_topics()["t"].topic_id}


def test_a_first_assignment_names_missing_and_existing_topics(cluster):
    cluster.create_topic("__internal", is_internal=True)
    with pytest.raises(ConditionError, match=r"STREAMLOG_UNKNOWN_TOPICS.*: T\. Existing topics: t\."):
        reader(cluster, subscribe="T,t").first_assignment()


def test_a_refusal_lists_only_some_of_many_topics(cluster):
    for number in range(30):
        cluster.create_topic(f"topic{number:02}")
    with pytest.raises(ConditionError, match="and 11 more"):
        reader(cluster, subscribe="T").first_assignment()


def test_earliest_and_latest_stay_unresolved_and_timestamps_are_looked_up(cluster):
    partitions = at(t_0=0, t_1=0).keys()
    limit = GlobalTimestamp(option="endingTimestamp", timestamp_ms=15)
    assert reader(cluster).unresolved(Earliest(), partitions, is_start=True) == at(t_0=EARLIEST, t_1=EARLIEST)
    assert reader(cluster).unresolved(limit, partitions, is_start=False) == at(t_0=1, t_1=LATEST)


def test_starts_relative_to_now_the_end_or_a_group_are_looked_up(cluster):
    partitions = at(t_0=0, t_1=0).keys()
    cluster.commit_offsets("g", {TopicPartition("t", 0): GroupOffset(offset=2)})

    def starts(limit, **more):
        return reader(cluster).unresolved(limit, partitions, is_start=True, **more)

    assert starts(BeforeNow(duration_ms=20)) == at(t_0=1, t_1=LATEST)
    assert starts(BeforeEnd(offset_count=2)) == at(t_0=1, t_1=0)
    assert starts(BeforeEnd(offset_count=2), ends=at(t_0=2)) == at(t_0=0, t_1=0)
    assert starts(CommittedByGroup(group_id="g")) == at(t_0=2, t_1=EARLIEST)


def test_earliest_and_latest_are_resolved_and_offsets_unchanged(cluster):
    cluster.delete_records(TopicPartition("t", 0), 1)
    assert reader(cluster).resolved(at(t_0=EARLIEST, t_1=LATEST)) == at(t_0=1, t_1=0)
    assert reader(cluster).resolved(at(t_0=LATEST, t_1=77)) == at(t_0=3, t_1=77)
    assert reader(cluster).resolved({}) == {}


def test_the_end_depends_on_the_isolation_level(cluster):
    cluster.add("t", "open", producer_id=5)
    assert reader(cluster).resolved(at(t_0=LATEST)) == at(t_0=3)
    assert reader(cluster, kafka__isolation__level="read_uncommitted").resolved(at(t_0=LATEST)) == at(t_0=4)


def test_earliest_leaves_out_deleted_partitions(cluster):
    assert reader(cluster).earliest(at(t_0=0, t_9=0).keys()) == at(t_0=0)


def test_offsets_below_the_known_ones_are_requested_again_up_to_num_retries(cluster):
    sleeps = []
    found = reader(cluster, sleeps, fetchOffset__numRetries=4, fetchOffset__retryIntervalMs=250).latest(at(t_0=99))
    assert found.offsets == at(t_0=3, t_1=0)
    assert sleeps == [0.25] * 3


def test_a_known_offset_after_an_open_transaction_is_requested_once(cluster):
    cluster.add("t", "open", producer_id=5)
    cluster.add("t", "behind")
    sleeps = []
    assert reader(cluster, sleeps).latest(at(t_0=5)).offsets == at(t_0=5, t_1=0)
    assert sleeps == []
    assert reader(cluster, sleeps).latest(at(t_0=6)).offsets == at(t_0=3, t_1=0)
    uncommitted = reader(cluster, sleeps, kafka__isolation__level="read_uncommitted")
    assert uncommitted.latest(at(t_0=6)).offsets == at(t_0=5, t_1=0)


def test_a_range_that_cannot_be_measured_counts_no_bytes(cluster):
    one = reader(cluster)
    t0, gone = TopicPartition("t", 0), TopicPartition("gone", 0)
    assert one.bytes_between(t0, 0, 3) == cluster.bytes_between(t0, 0, 3) > 0
    assert one.find_offset_within_bytes(t0, 0, 3, 1) == 3
    assert one.bytes_between(gone, 0, 3) == 0
    assert one.find_offset_within_bytes(gone, 0, 7, 1) == 7


def test_offsets_at_or_above_the_known_ones_are_requested_once(cluster):
    sleeps = []
    reader(cluster, sleeps).latest(at(t_0=3, t_1=0))
    assert sleeps == []


def test_a_topic_that_stays_unknown_fails_finally(cluster):
    sleeps = []

    def ask():
        raise UnknownTopicError("gone")

    with pytest.raises(UnknownTopicError):
        reader(cluster, sleeps).retried_if_topics_vanish(ask)
    assert len(sleeps) == 2
