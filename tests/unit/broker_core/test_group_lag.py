import pytest
from support.brokers.in_memory_cluster import InMemoryCluster

from broker_core import group_lag
from broker_core.cluster import GroupOffset
from broker_core.group_lag import PartitionLag, lag_of_group
from broker_core.model.exceptions import (
    AuthorizationError,
    BrokerError,
    BrokerUnavailableError,
    CorruptBatchError,
    InvalidTopicNameError,
    RequestTimedOutError,
    UnknownGroupError,
)
from broker_core.model.identifiers import IsolationLevel, TimestampType, TopicPartition

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
NOW_MS = 100_000


@pytest.fixture
def cluster():
    """Four batches of two records; record n was written at n seconds."""
    cluster = InMemoryCluster()
    cluster.create_topic("t")
    for first in range(0, 8, 2):
        cluster.add("t", "a", "b", timestamps_ms=(first * 1000, (first + 1) * 1000))
    return cluster


def commit(cluster, offset, partition=T0, group="g"):
    cluster.commit_offsets(group, {partition: GroupOffset(offset=offset, metadata="m")})


def refuse(monkeypatch, cluster, method, refused, error):
    """`cluster` raises `error` when it is asked for one partition."""
    ask = getattr(cluster, method)

    def asked(partition, *arguments, **given):
        if partition == refused:
            raise error
        return ask(partition, *arguments, **given)

    monkeypatch.setattr(cluster, method, asked)


def lag(cluster, offset=None, **given) -> PartitionLag:
    if offset is not None:
        commit(cluster, offset)
    (found,) = lag_of_group(cluster, "g", **({"now_ms": NOW_MS} | given))
    return found


@pytest.mark.parametrize(
    ("offset", "behind_offsets", "batches_behind", "behind_ms"),
    [(0, 8, 4, 100_000), (1, 7, 4, 99_000), (2, 6, 3, 98_000), (5, 3, 2, 95_000), (7, 1, 1, 93_000), (8, 0, 0, 0)],
)
def test_lag_starts_at_the_first_unread_record(cluster, offset, behind_offsets, batches_behind, behind_ms):
    found = lag(cluster, offset)
    batch_bytes = cluster.bytes_between(T0, 0, 2)
    assert (found.log_start_offset, found.log_end_offset, found.lost_offsets) == (0, 8, 0)
    assert (found.behind_offsets, found.behind_ms) == (behind_offsets, behind_ms)
    assert found.behind_bytes == batches_behind * batch_bytes
    assert found.committed == GroupOffset(offset=offset, metadata="m")


def test_a_future_timestamp_counts_as_now(cluster):
    assert lag(cluster, 7, now_ms=5_000).behind_ms == 0


def test_with_log_append_time_lag_uses_the_append_time(cluster):
    cluster.add("t", "a", timestamps_ms=(1,), timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert lag(cluster, 8).behind_ms == NOW_MS - 5_000


def test_removed_unread_records_count_as_lag_and_as_lost(cluster):
    cluster.delete_records(T0, 5)
    found = lag(cluster, 2)
    assert (found.log_start_offset, found.behind_offsets, found.lost_offsets) == (5, 6, 3)
    assert (found.behind_bytes, found.behind_ms) == (cluster.bytes_between(T0, 5, 8), 95_000)


def test_a_group_above_the_log_end_has_no_lag(cluster):
    found = lag(cluster, 11)
    assert (found.behind_offsets, found.behind_bytes, found.behind_ms, found.lost_offsets) == (0, 0, 0, 0)


def test_lag_ends_at_the_last_stable_offset(cluster):
    cluster.add("t", "open", producer_id=1, timestamps_ms=(9_000,))
    cluster.add("t", "c")
    found = lag(cluster, 8)
    assert (found.log_end_offset, found.behind_offsets, found.behind_ms) == (8, 0, 0)
    found = lag(cluster, 8, isolation=IsolationLevel.READ_UNCOMMITTED)
    assert (found.log_end_offset, found.behind_offsets, found.behind_ms) == (10, 2, 91_000)


def test_aborted_records_and_markers_count_as_offset_lag_but_not_time_lag(cluster):
    cluster.add("t", "x", "y", producer_id=1, timestamps_ms=(9_000, 9_000))
    cluster.write_marker("t", 1, is_commit=False)
    found = lag(cluster, 8)
    assert (found.behind_offsets, found.behind_bytes, found.behind_ms) == (3, cluster.bytes_between(T0, 8, 11), 0)
    cluster.add("t", "seen", timestamps_ms=(50_000,))
    assert lag(cluster).behind_ms == 50_000
    uncommitted = lag(cluster, isolation=IsolationLevel.READ_UNCOMMITTED)
    assert uncommitted.behind_ms == 91_000


def test_a_compaction_gap_at_the_end_is_no_time_lag(cluster):
    cluster.compact_away("t", 2, 3)
    found = lag(cluster, 4)
    assert (found.behind_offsets, found.behind_bytes, found.behind_ms) == (4, 0, 0)


def test_the_search_for_the_first_unread_record_is_bounded(cluster, monkeypatch):
    monkeypatch.setattr(group_lag, "FETCH_BYTES", 1)
    monkeypatch.setattr(group_lag, "MAX_FETCH_COUNT", 3)
    for _ in range(2):
        cluster.add("t", "x", producer_id=1)
    cluster.write_marker("t", 1, is_commit=False)
    cluster.add("t", "seen", timestamps_ms=(50_000,))
    assert lag(cluster, 8).behind_ms is None
    assert cluster.fetch_count == 3
    monkeypatch.setattr(group_lag, "MAX_FETCH_COUNT", 4)
    assert lag(cluster).behind_ms == 50_000


def test_an_unreadable_partition_has_offset_lag_but_no_time_lag(cluster):
    log = cluster._partitions[T0]
    log.batches[1] = log.batches[1][:-1] + bytes([log.batches[1][-1] ^ 1])
    found = lag(cluster, 2)
    assert (found.behind_offsets, found.behind_ms) == (6, None)
    assert "checksum of the content" in found.error


def test_all_partitions_of_the_group_are_listed_and_deleted_ones_have_no_lag(cluster, monkeypatch):
    cluster.create_topic("u", partition_count=2)
    for partition in (TopicPartition("u", 1), TopicPartition("u", 0), T0):
        commit(cluster, 0, partition)
    committed = cluster.fetch_offsets("g")
    cluster.delete_topic("t")  # while the group is looked at
    monkeypatch.setattr(cluster, "fetch_offsets", lambda group_id: committed)
    gone, *there = lag_of_group(cluster, "g", now_ms=NOW_MS)
    assert gone == PartitionLag(partition=T0, committed=GroupOffset(offset=0, metadata="m"))
    assert [(one.partition.partition, one.behind_offsets) for one in there] == [(0, 0), (1, 0)]


@pytest.mark.parametrize("group", ["streamlog-sink-x", "streamlog-topics-x"])
def test_decisions_of_sinks_and_topic_ids_of_sources_are_no_lag(cluster, group):
    commit(cluster, 17, TopicPartition("__consumer_offsets", 0), group=group)
    assert lag_of_group(cluster, group, now_ms=NOW_MS) == ()


def test_a_group_that_reads_an_internal_topic_has_lag(cluster):
    # Its row was left out, as if a sink had decided something there.
    cluster.create_topic("__consumer_offsets", is_internal=True)
    cluster.add("__consumer_offsets", "x", "y")
    commit(cluster, 1, TopicPartition("__consumer_offsets", 0))
    assert (lag(cluster).partition.topic, lag(cluster).behind_offsets) == ("__consumer_offsets", 1)


@pytest.mark.parametrize(
    "error",
    [
        InvalidTopicNameError("no topic can be called so"),
        AuthorizationError("not for you"),
        RequestTimedOutError("no leader"),
        BrokerError("its disk"),
        CorruptBatchError("damaged"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_partition_without_bounds_has_an_error_and_the_others_have_lag(cluster, monkeypatch, error):
    # One of them made the whole group unknown.
    cluster.create_topic("u")
    for partition in (T0, U0):
        commit(cluster, 0, partition)
    refuse(monkeypatch, cluster, "bounds", T0, error)
    silent, told = lag_of_group(cluster, "g", now_ms=NOW_MS)
    assert silent == PartitionLag(partition=T0, committed=GroupOffset(offset=0, metadata="m"), error=error.message)
    assert (told.partition, told.behind_offsets, told.error) == (U0, 0, None)


@pytest.mark.parametrize(("method", "behind_bytes"), [("bytes_between", False), ("fetch", True)])
def test_without_read_access_the_lag_has_offsets_only(cluster, monkeypatch, method, behind_bytes):
    refuse(monkeypatch, cluster, method, T0, AuthorizationError("you may not read"))
    found = lag(cluster, 2)
    assert (found.log_end_offset, found.behind_offsets, found.lost_offsets) == (8, 6, 0)
    assert (found.behind_bytes is not None, found.behind_ms) == (behind_bytes, None)
    assert found.error == "you may not read"


def test_unreachable_brokers_raise(cluster, monkeypatch):
    commit(cluster, 0)
    refuse(monkeypatch, cluster, "bounds", T0, BrokerUnavailableError("no answer"))
    with pytest.raises(BrokerUnavailableError):
        lag_of_group(cluster, "g", now_ms=NOW_MS)


def test_a_group_without_offsets_is_refused_by_name(cluster):
    with pytest.raises(UnknownGroupError, match="'Nobody' has no committed offsets"):
        lag_of_group(cluster, "Nobody", now_ms=NOW_MS)
