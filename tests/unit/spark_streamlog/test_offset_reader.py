import pytest
from in_memory_cluster import InMemoryCluster
from read_query import at, read_options

from broker_core.model.exceptions import UnknownTopicError
from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import ConditionError
from spark_streamlog.offset_reader import OffsetReader
from spark_streamlog.planning.offset_limits import EARLIEST, LATEST, Earliest, GlobalTimestamp


@pytest.fixture
def cluster():
    cluster = InMemoryCluster()
    cluster.create_topic("t", partition_count=2)
    cluster.add("t", "a", "b", "c", timestamps_ms=(10, 20, 30))
    return cluster


def reader(cluster, sleeps=None, **given):
    sleep = (lambda seconds: None) if sleeps is None else sleeps.append
    return OffsetReader(cluster, read_options(**given), sleep=sleep)


def test_the_assignment_has_the_ids_of_its_topics(cluster):
    cluster.create_topic("other")
    found = reader(cluster).assignment()
    assert found.partitions == at(t_0=0, t_1=0).keys()
    assert found.topic_ids == {"t": cluster.describe_topics()["t"].topic_id}


def test_a_first_assignment_names_what_is_missing_and_what_is_there(cluster):
    cluster.create_topic("__internal", is_internal=True)
    with pytest.raises(ConditionError, match=r"STREAMLOG_UNKNOWN_TOPICS.*: T\. Topics there: t\."):
        reader(cluster, subscribe="T,t").first_assignment()


def test_many_topics_are_not_all_listed_in_a_refusal(cluster):
    for number in range(30):
        cluster.create_topic(f"topic{number:02}")
    with pytest.raises(ConditionError, match="and 11 more"):
        reader(cluster, subscribe="T").first_assignment()


def test_words_stay_open_and_timestamps_are_looked_up(cluster):
    partitions = at(t_0=0, t_1=0).keys()
    limit = GlobalTimestamp(option="endingTimestamp", timestamp_ms=15)
    assert reader(cluster).unresolved(Earliest(), partitions, is_start=True) == at(t_0=EARLIEST, t_1=EARLIEST)
    assert reader(cluster).unresolved(limit, partitions, is_start=False) == at(t_0=1, t_1=LATEST)


def test_words_are_resolved_and_offsets_stay(cluster):
    cluster.delete_records(TopicPartition("t", 0), 1)
    assert reader(cluster).resolved(at(t_0=EARLIEST, t_1=LATEST)) == at(t_0=1, t_1=0)
    assert reader(cluster).resolved(at(t_0=LATEST, t_1=77)) == at(t_0=3, t_1=77)
    assert reader(cluster).resolved({}) == {}


def test_the_end_is_that_of_the_isolation_level(cluster):
    cluster.add("t", "open", producer_id=5)
    assert reader(cluster).resolved(at(t_0=LATEST)) == at(t_0=3)
    assert reader(cluster, kafka__isolation__level="read_uncommitted").resolved(at(t_0=LATEST)) == at(t_0=4)


def test_earliest_leaves_out_what_is_gone(cluster):
    assert reader(cluster).earliest(at(t_0=0, t_9=0).keys()) == at(t_0=0)


def test_offsets_below_the_known_ones_are_asked_again_as_often_as_the_option_says(cluster):
    sleeps = []
    found = reader(cluster, sleeps, fetchOffset__numRetries=4, fetchOffset__retryIntervalMs=250).latest(at(t_0=99))
    assert found.offsets == at(t_0=3, t_1=0)
    assert sleeps == [0.25] * 3


def test_offsets_at_or_above_the_known_ones_are_asked_once(cluster):
    sleeps = []
    reader(cluster, sleeps).latest(at(t_0=3, t_1=0))
    assert sleeps == []


def test_a_topic_that_stays_unknown_is_an_error_in_the_end(cluster):
    sleeps = []

    def ask():
        raise UnknownTopicError("gone")

    with pytest.raises(UnknownTopicError):
        reader(cluster, sleeps).asked_again_if_topics_vanish(ask)
    assert len(sleeps) == 2
