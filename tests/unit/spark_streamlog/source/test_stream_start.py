import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.read_query import at, read_options

from broker_core.cluster import GroupOffset
from broker_core.model.identifiers import TopicPartition
from spark_streamlog.errors import ConditionError
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.source.offset_reader import OffsetReader
from spark_streamlog.source.stream_start import find_stream_start

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = 1_000_000


@pytest.fixture
def cluster():
    """t-0 holds ten records, one each second until now; t-1 two of long ago."""
    cluster = InMemoryCluster()
    cluster.create_topic("t", partition_count=2)
    cluster.add("t", *map(str, range(10)), timestamps_ms=[NOW_MS - 9_000 + 1000 * n for n in range(10)])
    cluster.add("t", "old", "older", partition=1, timestamps_ms=(5, 4))
    return cluster


def start(cluster, *, available_now=False, change=None, **given):
    """Where the query starts; with Trigger.AvailableNow `change` happens after the run's end was fixed."""
    options = read_options(QueryKind.STREAM, **given)
    offsets = OffsetReader(cluster, options, sleep=lambda _: None, now_ms=lambda: NOW_MS)
    run_end = offsets.latest({}) if available_now else None
    if change:
        change()
    return find_stream_start(offsets, options, run_end)


def commit(cluster, group_id, **offsets):
    cluster.commit_offsets(group_id, {tp: GroupOffset(offset=offset) for tp, offset in at(**offsets).items()})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("earliest", at(t_0=0, t_1=0)),
        ("latest", at(t_0=10, t_1=2)),
        ("-4s", at(t_0=5, t_1=2)),
        ("-3500ms", at(t_0=6, t_1=2)),
        ("-1d", at(t_0=0, t_1=0)),
        ("latest-3", at(t_0=7, t_1=0)),
        ("latest-9223372036854775807", at(t_0=0, t_1=0)),
    ],
)
def test_earliest_latest_and_relative_starts_are_resolved(cluster, given, expected):
    assert start(cluster, startingOffsets=given).offsets == expected


def test_a_count_before_the_end_starts_from_the_readable_end_and_stays_in_the_log(cluster):
    cluster.delete_records(T0, 8)
    assert start(cluster, startingOffsets="latest-3").offsets == at(t_0=8, t_1=0)
    cluster.add("t", *"abcdefgh", producer_id=1)
    cluster.add("t", "behind the open transaction")
    assert start(cluster, startingOffsets="latest-1").offsets == at(t_0=9, t_1=1)
    uncommitted = {"kafka__isolation__level": "read_uncommitted"}
    assert start(cluster, startingOffsets="latest-1", **uncommitted).offsets == at(t_0=18, t_1=1)


# -- a group's offsets --


def test_a_groups_offsets_are_the_starts_of_its_partitions(cluster):
    commit(cluster, "g", t_0=4, t_1=1)
    assert start(cluster, startingOffsets="group:g").offsets == at(t_0=4, t_1=1)


def test_a_partition_without_a_group_offset_starts_at_earliest_with_a_warning(cluster, caplog):
    commit(cluster, "g", t_0=4)
    cluster.delete_records(T1, 1)
    assert start(cluster, startingOffsets="group:g").offsets == at(t_0=4, t_1=1)
    assert "The group g has not committed an offset for t-1: reading starts at earliest there" in caplog.text


def test_an_unknown_group_is_refused_by_name(cluster):
    commit(cluster, "other", t_0=4)
    with pytest.raises(ConditionError, match=r"STREAMLOG_GROUP_WITHOUT_OFFSETS.*group:Other.*t-0, t-1"):
        start(cluster, startingOffsets="group:Other")


def test_a_group_that_only_reads_other_topics_is_refused(cluster):
    cluster.create_topic("u")
    commit(cluster, "g", u_0=0)
    with pytest.raises(ConditionError, match="STREAMLOG_GROUP_WITHOUT_OFFSETS"):
        start(cluster, startingOffsets="group:g")


@pytest.mark.parametrize(("committed", "moved"), [(0, 2), (11, 10)])
def test_a_group_offset_outside_of_the_log_is_a_loss(cluster, committed, moved):
    cluster.delete_records(T0, 2)
    commit(cluster, "g", t_0=committed, t_1=0)
    with pytest.raises(ConditionError, match=rf"START_OFFSET_RESET.*t-0 was to start at offset {committed}"):
        start(cluster, startingOffsets="group:g")
    assert start(cluster, startingOffsets="group:g", failOnDataLoss=False).offsets == at(t_0=moved, t_1=0)


def test_an_offset_after_an_open_transaction_is_not_a_loss(cluster):
    cluster.add("t", "open", producer_id=1)
    cluster.add("t", "read by a read-uncommitted group")
    commit(cluster, "g", t_0=12, t_1=2)
    assert start(cluster, startingOffsets="group:g").offsets == at(t_0=12, t_1=2)
    assert start(cluster, startingOffsets='{"t":{"0":11,"1":2}}').offsets == at(t_0=11, t_1=2)


# -- what moves is held --


@pytest.mark.parametrize(
    ("given", "held"),
    [
        ("earliest", at()), ("latest", at(t_0=0, t_1=0)), ("-4s", at(t_0=0, t_1=0)), ("latest-3", at(t_0=0, t_1=0)),
        ("group:g", at(t_0=0, t_1=0)), ('{"t":{"0":3,"1":-2}}', at()), ('{"t":{"0":3,"1":-1}}', at(t_1=0)),
    ],
)  # fmt: skip
def test_partitions_whose_start_moves_with_time_are_held(cluster, given, held):
    commit(cluster, "g", t_0=4)
    assert start(cluster, startingOffsets=given).held == held.keys()


def test_a_timestamp_without_a_record_starts_at_an_end_that_moves(cluster):
    given = {"startingTimestamp": NOW_MS - 500, "startingOffsetsByTimestampStrategy": "latest"}
    assert start(cluster, **given).held == {T1}


# -- Trigger.AvailableNow --


def test_a_run_counts_from_the_end_fixed_at_its_start(cluster):
    def change():
        cluster.add("t", *"abc")
        cluster.create_partitions("t", 3)

    found = start(cluster, available_now=True, change=change, startingOffsets="latest-3")
    assert found.offsets == at(t_0=7, t_1=0)
    found = start(cluster, available_now=True, change=lambda: cluster.add("t", "d"), startingOffsets="latest")
    assert found.offsets == at(t_0=13, t_1=2, t_2=0)


def test_a_run_from_a_timestamp_does_not_begin_after_its_end(cluster):
    def change():
        cluster.add("t", "now", partition=1, timestamps_ms=(NOW_MS,))

    assert start(cluster, available_now=True, change=change, startingOffsets="-4s").offsets == at(t_0=5, t_1=2)
