import itertools
import operator
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brokers.in_memory_cluster import InMemoryCluster
from support.builders.append_records import append_records
from support.objects.counted_objects import CountedObjects
from support.objects.object_builders import MemoryLog
from support.runs.examples import examples
from support.spark.read_query import read_options

from broker_core.embedded.embedded_cluster import EmbeddedCluster
from broker_core.model.identifiers import TimestampType, TopicPartition
from broker_core.record.batch_reader import Record
from spark_streamlog.errors import ConditionError
from spark_streamlog.planning.filter_ranges import ColumnFilter
from spark_streamlog.planning.offset_limits import EARLIEST, LATEST
from spark_streamlog.source.batch_planner import plan_batch
from spark_streamlog.source.batch_pruning import plan_pruned
from spark_streamlog.source.offset_reader import OffsetReader
from spark_streamlog.source.planned_range import PlannedRange
from spark_streamlog.source.range_reader import read_range

COMPARE = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
KEYS = [None, b"", b"a", b"b", b"c"]


def a_filter(column, operator, *values):
    return ColumnFilter(column=column, operator=operator, values=values)


def passes(one, row):
    """As SQL has it: a comparison with a null is not true."""
    value = row[one.column]
    if one.operator == "is null":
        return value is None
    if one.column == "timestamp":
        value = value.value if hasattr(value, "value") else int(value.timestamp() * 10**6 + 0.5)
    if value is None:
        return False
    return value in one.values if one.operator == "in" else COMPARE[one.operator](value, one.values[0])


def rows_of(cluster, planned, options):
    return [row for one in planned for batch in read_range(cluster, one, options) for row in batch.to_pylist()]


def passing(rows, filters):
    found = [row for row in rows if all(passes(one, row) for one in filters)]
    return sorted((row["topic"], row["partition"], row["offset"], row["key"]) for row in found)


def unpruned(cluster, options):
    return plan_batch(OffsetReader(cluster, options), options)


def pruned(cluster, options, filters):
    return list(itertools.chain.from_iterable(plan_pruned(cluster, options, filters).tasks))


def a_log(cluster, batches, *, topic="t", partition=0, **more):
    """A batch for each list of (key, timestamp in ms)."""
    for records in batches:
        append_records(
            cluster,
            topic,
            *(Record(key=key, value=b"v", timestamp_ms=ms) for key, ms in records),
            partition=partition,
            **more,
        )


keys, times = st.sampled_from(KEYS), st.integers(0, 30)
batches = st.lists(st.lists(st.tuples(keys, times), min_size=1, max_size=4), max_size=8)


def comparisons(column, values):
    single = st.builds(lambda o, v: a_filter(column, o, v), st.sampled_from(list(COMPARE)), values)
    return single | st.builds(lambda vs: a_filter(column, "in", *vs), st.lists(values, max_size=4))


some_keys = st.sampled_from(KEYS[1:])
some_filter = st.one_of(
    comparisons("offset", st.integers(-1, 30)),
    comparisons("partition", st.integers(0, 2)),
    comparisons("topic", st.sampled_from(["t", "u", "é"])),
    comparisons("timestamp", st.integers(-1, 31_000)),
    st.builds(lambda k: a_filter("key", "=", k), some_keys),
    st.builds(lambda ks: a_filter("key", "in", *ks), st.lists(some_keys, max_size=3)),
    st.just(a_filter("key", "is null")),
)
some_options = st.fixed_dictionaries(
    {"startingOffsetsByTimestampStrategy": st.just("latest")},
    optional={
        "minPartitions": st.integers(1, 12),
        "maxRecordsPerPartition": st.integers(1, 12),
        "kafka__isolation__level": st.sampled_from(["read_committed", "read_uncommitted"]),
        "startingTimestamp": st.integers(0, 10),
    },
)


@examples(100)
@given(batches, batches, batches, st.lists(some_filter, max_size=4), some_options, st.data())
def test_pushed_filters_do_not_change_the_rows_even_when_the_plan_runs_again(
    first, second, later, filters, given_options, data
):
    cluster = InMemoryCluster()
    cluster.create_topic("t", partition_count=2)
    a_log(cluster, first)
    a_log(cluster, second, partition=1, timestamp_type=data.draw(st.sampled_from(TimestampType)))
    if data.draw(st.booleans()):
        # An open transaction: a committed reader stops here, and goes on when it has ended.
        a_log(cluster, [[(b"a", 5)]], producer_id=7, base_sequence=0)
    if first:
        cluster.compact_away("t", *data.draw(st.sets(st.integers(0, len(first) - 1), max_size=2)))
    cluster.delete_records(TopicPartition("t", 1), data.draw(st.integers(0, sum(map(len, second)))))
    options = read_options(subscribe="t", **given_options)
    plans = unpruned(cluster, options), pruned(cluster, options, filters)
    for more in ([], later):
        a_log(cluster, more, partition=data.draw(st.integers(0, 1)))
        expected, found = (passing(rows_of(cluster, plan, options), filters) for plan in plans)
        assert found == expected
        assert len(found) == len(set(found)), "a row came twice"


@pytest.fixture(scope="module", params=["directory", "objects"])
def log(request, tmp_path_factory):
    """Real segments and filters: key n // 10 in runs, timestamps that go up and down."""
    if request.param == "objects":
        with MemoryLog().open() as cluster:
            fill(cluster, {"retention.ms": "-1"})
            with (
                patch("broker_core.object_cluster.range_rewriter.MIN_FILTERED_RANGE_BYTES", 1),
                patch("broker_core.object_cluster.range_rewriter.MERGED_RANGE_BYTES", 2_000),
            ):
                assert cluster.maintain().merged_range_count == 120
            yield cluster
        return
    with EmbeddedCluster(tmp_path_factory.mktemp("pruning") / "log", create=True) as cluster:
        cluster._maintenance.stop()
        fill(cluster, {"internal.segment.bytes": "2000", "index.interval.bytes": "200", "retention.ms": "-1"})
        assert all(report.key_filter_count > 2 for report in cluster.maintain())
        yield cluster


def fill(cluster, configs):
    cluster.create_topic("t", partition_count=2, configs=configs)
    for number in range(120):
        key = None if number // 10 == 3 else b"%d" % (number // 10)
        record = Record(key=key, value=b"v" * 100, timestamp_ms=number * 10 + number % 7 * 30)
        append_records(cluster, "t", record, partition=number % 2)


real_filter = st.one_of(
    comparisons("offset", st.integers(-1, 70)),
    comparisons("partition", st.integers(0, 2)),
    comparisons("timestamp", st.integers(0, 1_600_000)),
    st.builds(lambda n: a_filter("key", "=", b"%d" % n), st.integers(0, 14)),
    st.builds(lambda ns: a_filter("key", "in", *(b"%d" % n for n in ns)), st.lists(st.integers(0, 14), max_size=3)),
    st.just(a_filter("key", "is null")),
)


@examples(30)
@given(st.lists(real_filter, max_size=3), st.sampled_from([{}, {"minPartitions": 7}, {"maxRecordsPerPartition": 11}]))
def test_with_a_real_log_rows_are_equal_and_skipped_bytes_are_counted(log, filters, given_options):
    options = read_options(**given_options)
    plan = plan_pruned(log, options, filters)
    tasks = list(itertools.chain.from_iterable(plan.tasks))
    assert passing(rows_of(log, tasks, options), filters) == passing(
        rows_of(log, unpruned(log, options), options), filters
    )
    total = sum(log.bytes_between(TopicPartition("t", n), 0, 60) for n in (0, 1))
    assert plan.report.bytes_total == total
    assert 0 <= plan.report.bytes_skipped <= total
    assert plan.report.filters == tuple(filters)


@pytest.mark.parametrize(
    ("filters", "at_least"),
    [
        ([a_filter("partition", "=", 0)], 0.45),
        ([a_filter("offset", "<", 6)], 0.85),
        ([a_filter("offset", "in", 3, 40)], 0.9),
        ([a_filter("timestamp", ">=", 900_000)], 0.4),
        ([a_filter("key", "=", b"2")], 0.4),
        ([a_filter("key", "in", b"2", b"no such key")], 0.4),
        ([a_filter("key", "=", b"no such key"), a_filter("partition", "=", 1)], 0.85),
        ([a_filter("key", "is null")], 0.4),
        ([a_filter("topic", "=", "u")], 1.0),
        ([a_filter("partition", "in")], 1.0),
    ],
)
def test_each_kind_of_filter_skips_bytes(log, filters, at_least):
    report = plan_pruned(log, read_options(), filters).report
    assert report.bytes_skipped >= at_least * report.bytes_total
    assert report.topics == ("t",)


def test_a_query_by_key_on_objects_reads_a_block_of_each_filter_and_the_ranges_with_the_key():
    log = MemoryLog()
    with log.open() as writing:
        writing.create_topic("t", configs={"retention.ms": "-1"})
        for number in range(40):
            a_log(writing, [[(b"%d-%d" % (number, row), row) for row in range(200)]])
        size_bytes = writing.bytes_between(TopicPartition("t", 0), 0, 8000)
        with (
            patch("broker_core.object_cluster.range_rewriter.MIN_FILTERED_RANGE_BYTES", 1),
            patch("broker_core.object_cluster.range_rewriter.MERGED_RANGE_BYTES", size_bytes // 8),
            # Else what is merged looks small and is merged again, ten thousand times.
            patch("broker_core.object_log.maintenance_plan.MERGED_RANGE_BYTES", size_bytes // 8),
        ):
            assert writing.maintain().merged_range_count == 40
        range_count = len(writing.describe_segments(TopicPartition("t", 0)))
    options, filters = read_options(), [a_filter("key", "=", b"7-3")]
    taken = []
    for plan in (unpruned, lambda cluster, options: pruned(cluster, options, filters)):
        counted = CountedObjects(now_ms=log.clock.now_ms, shared=log.store)
        cluster = log.open(counted)
        cluster.describe_topics()
        counted.taken()
        assert [row[2] for row in passing(rows_of(cluster, plan(cluster, options), options), filters)] == [1403]
        taken.append(counted.taken())
    whole, found = taken
    assert range_count >= 8 and whole.size_bytes >= size_bytes
    assert found.size_bytes < range_count * 4096 + size_bytes // 8 + 1000


@pytest.mark.parametrize(
    "filters", [[], [a_filter("timestamp", "<", 500_000)], [a_filter("offset", ">=", 0)], [a_filter("offset", "<>", 3)]]
)
def test_a_filter_that_excludes_nothing_skips_nothing(log, filters):
    plan = plan_pruned(log, read_options(), filters)
    assert plan.report.bytes_skipped == 0
    assert [task[0].from_offset for task in plan.tasks] == [EARLIEST, EARLIEST]
    assert [task[-1].until_offset for task in plan.tasks] == [LATEST, LATEST]


def test_the_pruning_report_is_one_line(log):
    report = plan_pruned(log, read_options(), [a_filter("partition", "=", 0), a_filter("key", "=", b"secret")]).report
    assert str(report) == (
        f"topic=t bytes_total={report.bytes_total} bytes_skipped={report.bytes_skipped}"
        " filters=partition = 0 and key = ?"
    )


def test_a_partition_is_one_task_regardless_of_its_remaining_ranges(log):
    plan = plan_pruned(log, read_options(), [a_filter("offset", "in", *range(0, 60, 4))])
    assert [len(task) for task in plan.tasks] == [15, 15]
    assert {one.topic_partition.partition for one in plan.tasks[0]} == {0}


def test_min_partitions_divide_the_remaining_ranges(log):
    whole = plan_pruned(log, read_options(minPartitions=8), [a_filter("partition", "=", 1)])
    assert len(whole.tasks) >= 8
    several = plan_pruned(log, read_options(minPartitions=4), [a_filter("offset", "in", *range(0, 60, 2))])
    assert 4 <= len(several.tasks) <= 8
    few = plan_pruned(log, read_options(minPartitions=50), [a_filter("offset", "<", 2)])
    assert len(few.tasks) == 4


def test_max_records_per_partition_bounds_a_task(log):
    plan = plan_pruned(log, read_options(maxRecordsPerPartition=10), [a_filter("offset", "in", *range(0, 60, 2))])
    assert [len(task) for task in plan.tasks] == [10, 10, 10] * 2


def test_a_small_range_fetches_only_its_own_bytes(log):
    [first, *_], _ = plan_pruned(log, read_options(), [a_filter("offset", "in", 3, 40)]).tasks
    assert first.size_bytes == log.bytes_between(TopicPartition("t", 0), 3, 4) < 300


def planned_on_three_batches(cluster, *filters, **given_options):
    cluster.create_topic("t")
    a_log(cluster, [[(b"a", 1)] * 3, [(b"b", 2)] * 3, [(b"a", 3)] * 3])
    options = read_options(**given_options)
    return options, pruned(cluster, options, filters)


def test_records_deleted_by_retention_before_the_task_ran_are_not_a_loss():
    cluster = InMemoryCluster()
    options, planned = planned_on_three_batches(cluster, a_filter("key", "=", b"a"))
    assert [(one.from_offset, one.until_offset) for one in planned] == [(EARLIEST, 3), (6, LATEST)]
    cluster.delete_records(TopicPartition("t", 0), 7)
    assert [row["offset"] for row in rows_of(cluster, planned, options)] == [7, 8]


def test_records_missing_from_a_requested_offset_are_a_loss():
    cluster = InMemoryCluster()
    given_options = {"startingOffsets": '{"t":{"0":1}}'}
    options, planned = planned_on_three_batches(cluster, a_filter("timestamp", ">=", 3_000), **given_options)
    cluster.delete_records(TopicPartition("t", 0), 7)
    with pytest.raises(ConditionError, match="KAFKA_DATA_LOSS"):
        rows_of(cluster, planned, options)


@pytest.mark.parametrize("one", [a_filter("timestamp", ">=", 9_000), a_filter("key", "=", b"a")])
def test_an_offset_below_the_log_start_is_a_loss_even_with_pushed_filters(one):
    cluster = InMemoryCluster()
    cluster.create_topic("t")
    a_log(cluster, [[(b"a", 1)] * 3, [(b"b", 2)] * 3, [(b"a", 3)] * 3])
    cluster.delete_records(TopicPartition("t", 0), 4)
    options = read_options(startingOffsets='{"t":{"0":1}}')
    with pytest.raises(ConditionError, match="KAFKA_DATA_LOSS"):
        rows_of(cluster, pruned(cluster, options, [one]), options)


def test_a_corrupt_batch_fails_its_task_and_not_the_planning(tmp_path):
    with EmbeddedCluster(tmp_path / "log", create=True) as cluster:
        cluster._maintenance.stop()
        cluster.create_topic("t", configs={"internal.segment.bytes": "300", "retention.ms": "-1"})
        a_log(cluster, [[(b"%d" % n, n)] * 2 for n in range(12)])
        cluster.maintain()
        damaged = tmp_path / "log" / "t-0" / "00000000000000000000.log"
        content = bytearray(damaged.read_bytes())
        content[70] ^= 1
        damaged.write_bytes(content)
        options = read_options()
        by_time = pruned(cluster, options, [a_filter("timestamp", ">=", 1_000)])
        with pytest.raises(ConditionError, match=r"offset 0 cannot be read: t-0: checksum.*00000.log, position 0"):
            rows_of(cluster, by_time, options)
        by_key = pruned(cluster, options, [a_filter("key", "=", b"11")])
        assert [row["offset"] for row in rows_of(cluster, by_key, options) if row["key"] == b"11"] == [22, 23]


def test_without_filters_the_pruned_plan_equals_the_plain_one():
    cluster = InMemoryCluster()
    cluster.create_topic("t", partition_count=3)
    a_log(cluster, [[(b"a", 1)] * 5])
    options = read_options()
    expected = unpruned(cluster, options)
    found = [one for (one,) in plan_pruned(cluster, options, []).tasks]
    assert [(f.topic_partition, f.from_offset, f.until_offset, f.topic_id) for f in found] == sorted(
        (e.topic_partition, e.from_offset, e.until_offset, e.topic_id) for e in expected
    )
    assert all(isinstance(one, PlannedRange) for one in found)
