import itertools
import threading

import pytest
from support.brokers.in_memory_cluster import InMemoryCluster
from support.spark.read_query import batch_values, read_options, values_of

from broker_core.model.exceptions import OffsetOutOfRangeError
from broker_core.model.identifiers import CompressionType, TimestampType, TopicPartition
from spark_streamlog.errors import ConditionError
from spark_streamlog.options.option_reader import QueryKind
from spark_streamlog.options.read_options import parse_read_options
from spark_streamlog.source import fetched_rows, range_reader
from spark_streamlog.source.planned_range import PlannedRange
from spark_streamlog.source.range_reader import read_range

T0 = TopicPartition("t", 0)
COULD_NOT_READ = r"KAFKA_DATA_LOSS\.COULD_NOT_READ_OFFSET_RANGE"


@pytest.fixture
def cluster():
    cluster = InMemoryCluster()
    cluster.create_topic("t")
    return cluster


def planned(cluster, from_offset, until_offset):
    topic = cluster.describe_topics().get("t")
    return PlannedRange(
        topic_partition=T0, from_offset=from_offset, until_offset=until_offset, topic_id=topic and topic.topic_id
    )


def read(cluster, from_offset, until_offset, **given):
    return values_of(read_range(cluster, planned(cluster, from_offset, until_offset), read_options(**given)))


def fill(cluster, count, per_batch=3):
    """Values 0, 1, 2, … which are their offsets."""
    numbers = map(str, range(count))
    while batch := list(itertools.islice(numbers, per_batch)):
        cluster.add("t", *batch)


@pytest.mark.parametrize("compression", CompressionType)
@pytest.mark.parametrize("window", [(0, 9), (1, 9), (4, 5), (2, 7), (8, 9), (5, 5)])
def test_a_range_can_begin_and_end_inside_batches(cluster, window, compression):
    for first in (0, 3, 6):
        cluster.add("t", *map(str, range(first, first + 3)), compression=compression)
    assert read(cluster, *window) == [str(n) for n in range(*window)]


def test_ranges_split_anywhere_give_every_record_once(cluster):
    fill(cluster, 20)
    assert batch_values(cluster, maxRecordsPerPartition=3) == [str(n) for n in range(20)]


def test_large_batches_are_returned_in_bounded_pieces(cluster, monkeypatch):
    monkeypatch.setattr(fetched_rows, "MAX_BATCH_ROWS", 4)
    fill(cluster, 30, per_batch=10)
    batches = list(read_range(cluster, planned(cluster, 2, 29), read_options()))
    assert values_of(batches) == [str(n) for n in range(2, 29)]
    assert max(batch.num_rows for batch in batches) <= 4


@pytest.mark.parametrize(
    ("removed", "expected"),
    [
        ((0, 1, 2), []),
        ((0,), ["3", "4", "5", "6", "7", "8"]),
        ((2,), ["0", "1", "2", "3", "4", "5"]),
        ((1,), ["0", "1", "2", "6", "7", "8"]),
    ],
    ids=["no data in the whole range", "first offset not data", "last offset not data", "a gap inside"],
)
def test_gaps_of_compaction_are_not_a_loss(cluster, removed, expected):
    fill(cluster, 9)
    cluster.compact_away("t", *removed)
    assert read(cluster, 0, 9) == expected


def test_a_log_append_batch_shows_its_max_timestamp_in_every_record(cluster):
    cluster.add("t", "a", "b", timestamps_ms=(1, 2), timestamp_type=TimestampType.LOG_APPEND_TIME)
    (batch,) = read_range(cluster, planned(cluster, 0, 2), read_options())
    assert [t.timestamp() for t in batch.column("timestamp").to_pylist()] == [5.0, 5.0]
    assert batch.column("timestampType").to_pylist() == [1, 1]


# -- transactions --


def test_aborted_records_are_hidden_from_read_committed_and_markers_from_everyone(cluster):
    cluster.add("t", "kept", producer_id=1)
    cluster.add("t", "aborted", producer_id=2)
    cluster.add("t", "plain")
    cluster.write_marker("t", 2, is_commit=False)
    cluster.write_marker("t", 1, is_commit=True)
    assert batch_values(cluster) == ["kept", "plain"]
    assert batch_values(cluster, kafka__isolation__level="read_uncommitted") == ["kept", "aborted", "plain"]


def test_read_committed_ends_below_the_first_open_transaction(cluster):
    cluster.add("t", "a")
    cluster.add("t", "open", producer_id=1)
    cluster.add("t", "behind")
    assert batch_values(cluster) == ["a"]
    assert batch_values(cluster, kafka__isolation__level="read_uncommitted") == ["a", "open", "behind"]


def test_a_range_of_markers_and_aborted_records_has_no_rows(cluster):
    cluster.add("t", "x", "y", producer_id=1)
    cluster.write_marker("t", 1, is_commit=False)
    assert batch_values(cluster) == []
    assert batch_values(cluster, minPartitions=3) == []


def test_a_range_that_begins_inside_an_aborted_transaction_hides_its_rest(cluster):
    cluster.add("t", "x0", "x1", producer_id=1)
    cluster.add("t", "x2", producer_id=1)
    cluster.write_marker("t", 1, is_commit=False)
    cluster.add("t", "after", producer_id=1)
    cluster.write_marker("t", 1, is_commit=True)
    assert read(cluster, 1, 6) == ["after"]


def test_aborted_transactions_are_tracked_across_fetches(cluster, monkeypatch):
    monkeypatch.setattr(range_reader, "FETCH_BYTES", 1)
    for number in range(5):
        cluster.add("t", f"x{number}", producer_id=1)
        cluster.add("t", f"p{number}")
    cluster.write_marker("t", 1, is_commit=False)
    cluster.add("t", "end")
    assert batch_values(cluster) == ["p0", "p1", "p2", "p3", "p4", "end"]
    assert cluster.fetch_count == 12


# -- loss --


def at_fetch(cluster, number, change):
    """Calls `change` right before the fetch of this number, counted from 1; the answer tells whether it was."""
    called = []

    def hook(partition, from_offset):
        if cluster.fetch_count == number:
            called.append(True)
            change()

    cluster.before_fetch = hook
    return called


def test_a_start_below_the_log_start_is_a_loss_and_with_false_the_rest_is_read(cluster):
    fill(cluster, 9)
    cluster.delete_records(T0, 6)
    with pytest.raises(ConditionError, match=COULD_NOT_READ + r".*\[2, 6\) of t-0.*contains \[6, 9\)"):
        read(cluster, 2, 8)
    assert read(cluster, 2, 8, failOnDataLoss=False) == ["6", "7"]


def test_a_log_start_inside_a_batch_hides_the_records_below_it(cluster):
    fill(cluster, 9)
    cluster.delete_records(T0, 4)
    assert read(cluster, 2, 9, failOnDataLoss=False) == ["4", "5", "6", "7", "8"]


def test_a_range_below_the_log_start_returns_no_rows_above_it(cluster):
    fill(cluster, 9)
    cluster.delete_records(T0, 6)
    assert read(cluster, 1, 5, failOnDataLoss=False) == []
    with pytest.raises(ConditionError, match=COULD_NOT_READ + r".*\[1, 5\)"):
        read(cluster, 1, 5)


def test_retention_during_the_read_neither_repeats_nor_adds_rows(cluster, monkeypatch):
    monkeypatch.setattr(range_reader, "FETCH_BYTES", 1)
    fill(cluster, 12)
    called = at_fetch(cluster, 2, lambda: cluster.delete_records(T0, 7))
    assert read(cluster, 0, 9, failOnDataLoss=False) == ["0", "1", "2", "7", "8"]
    assert called


def test_retention_during_the_read_fails_the_query_by_default(cluster, monkeypatch):
    monkeypatch.setattr(range_reader, "FETCH_BYTES", 1)
    fill(cluster, 12)
    called = at_fetch(cluster, 2, lambda: cluster.delete_records(T0, 7))
    with pytest.raises(ConditionError, match=COULD_NOT_READ + r".*\[3, 7\)"):
        read(cluster, 0, 9)
    assert called


def test_an_end_above_the_log_mentions_ending_offsets(cluster):
    fill(cluster, 3)
    with pytest.raises(
        ConditionError, match=COULD_NOT_READ + r".*\[3, 9\).*endingOffsets is too high or the log was truncated"
    ):
        read(cluster, 0, 9)


def test_a_log_truncated_below_the_planned_end_is_a_loss(cluster):
    fill(cluster, 9)
    one = planned(cluster, 0, 9)
    cluster.truncate("t", 6)
    with pytest.raises(ConditionError, match=COULD_NOT_READ + r".*\[6, 9\).*contains \[0, 6\)"):
        list(read_range(cluster, one, read_options()))
    assert values_of(read_range(cluster, one, read_options(failOnDataLoss=False))) == ["0", "1", "2", "3", "4", "5"]
    cluster.truncate("t", 0)
    assert values_of(read_range(cluster, one, read_options(failOnDataLoss=False))) == []


def test_a_deleted_topic_is_a_loss(cluster):
    fill(cluster, 9)
    one = planned(cluster, 0, 9)
    cluster.delete_topic("t")
    with pytest.raises(ConditionError, match=r"KAFKA_DATA_LOSS\.PARTITIONS_DELETED"):
        list(read_range(cluster, one, read_options()))
    assert list(read_range(cluster, one, read_options(failOnDataLoss=False))) == []


@pytest.mark.parametrize("fetch_number", [0, 1, 2])
def test_rows_of_a_recreated_topic_are_never_returned_for_the_old_one(cluster, monkeypatch, caplog, fetch_number):
    monkeypatch.setattr(range_reader, "FETCH_BYTES", 1)
    fill(cluster, 9)
    one = planned(cluster, 0, 9)

    def recreate():
        cluster.delete_topic("t")
        cluster.create_topic("t")
        cluster.add("t", *(f"new{n}" for n in range(12)))

    called = at_fetch(cluster, fetch_number, recreate)
    if fetch_number == 0:
        recreate()
    expected = ["0", "1", "2"] if fetch_number == 2 else []
    assert values_of(read_range(cluster, one, read_options(failOnDataLoss=False))) == expected
    assert ["TOPIC_RECREATED" in record.message for record in caplog.records] == [True], "the one loss, once"
    with pytest.raises(ConditionError, match=r"KAFKA_DATA_LOSS\.TOPIC_RECREATED"):
        list(read_range(cluster, one, read_options()))
    assert called or fetch_number == 0


def test_a_corrupt_batch_is_reported_and_not_skipped(cluster):
    fill(cluster, 9)
    log = cluster._partitions[T0]
    log.batches[1] = log.batches[1][:-1] + bytes([log.batches[1][-1] ^ 1])
    with pytest.raises(ConditionError, match=r"STREAMLOG_UNREADABLE_RECORD.*topic t partition 0 at offset 3.*checksum"):
        read(cluster, 0, 9, failOnDataLoss=False)


def test_an_offset_that_stays_out_of_range_does_not_hang(cluster):
    fill(cluster, 9)
    asked = []

    def refusing(partition, from_offset, **rest):
        asked.append(from_offset)
        raise OffsetOutOfRangeError("not now", offset=from_offset)

    cluster.fetch = refusing
    with pytest.raises(ConditionError, match=COULD_NOT_READ + r".*\[0, 9\)"):
        read(cluster, 0, 9)
    assert asked == [0] * (range_reader.FETCH_ATTEMPT_COUNT + 1)


def test_with_brokers_the_next_fetch_starts_before_the_last_one_is_decoded(cluster, monkeypatch):
    monkeypatch.setattr(range_reader, "FETCH_BYTES", 1)  # a batch each
    fill(cluster, 12, per_batch=3)
    fetch, asked = cluster.fetch, []

    def noted_fetch(partition, offset, **how):
        asked.append((offset, threading.current_thread() is threading.main_thread()))
        return fetch(partition, offset, **how)

    cluster.fetch = noted_fetch
    options = parse_read_options({"kafka.bootstrap.servers": "unused:9092", "subscribe": "t"}, QueryKind.BATCH)
    assert values_of(read_range(cluster, planned(cluster, 1, 11), options)) == [str(n) for n in range(1, 11)]
    assert asked == [(1, True), (3, False), (6, False), (9, False)]
    asked.clear()
    assert read(cluster, 1, 11) == [str(n) for n in range(1, 11)]
    assert all(is_main for _, is_main in asked), "a directory needs no thread"


@pytest.mark.parametrize("is_fatal", [True, False])
def test_records_deleted_during_a_fetch_ahead_are_a_loss(cluster, monkeypatch, is_fatal):
    monkeypatch.setattr(range_reader, "FETCH_BYTES", 1)
    fill(cluster, 12, per_batch=3)
    settings = {"kafka.bootstrap.servers": "unused:9092", "subscribe": "t", "failOnDataLoss": str(is_fatal)}
    batches = read_range(cluster, planned(cluster, 0, 12), parse_read_options(settings, QueryKind.BATCH))
    found = values_of([next(batches)])
    cluster.delete_records(T0, 10)
    if is_fatal:
        with pytest.raises(ConditionError, match=COULD_NOT_READ):
            list(batches)
    else:
        found += values_of(batches)
        # What was on its way when they were removed may still come.
        assert found in ([str(n) for n in (0, 1, 2, *rest, 10, 11)] for rest in ((), (3, 4, 5)))
