"""Filters pushed down: the same rows, fewer bytes."""

import re

import pytest
from pyspark.sql.functions import expr
from support.builders.append_records import append_records

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.record.batch_reader import Record

SETTING = "spark.sql.python.filterPushdown.enabled"
LOGGING = "spark.sql.pyspark.worker.logging.enabled"
FIRST_MS = 1_700_000_000_000
RECORDS = 240


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory):
    """Two partitions of several segments each; keys come in runs of twenty, timestamps a second apart."""
    path = str(tmp_path_factory.mktemp("push-down") / "log")
    with open_embedded(path, create=True) as cluster:
        cluster.create_topic("t", partition_count=2, configs={"internal.segment.bytes": "2500", "retention.ms": "-1"})
        for first in range(0, RECORDS, 5):
            records = [
                Record(key=b"key-%d" % (n // 20), value=b"v" * 50, timestamp_ms=FIRST_MS + 1000 * n)
                for n in range(first, first + 5)
            ]
            append_records(cluster, "t", *records, partition=first // 5 % 2)
        cluster.maintain()
    return path


@pytest.fixture
def pushing(spark):
    """Filters are pushed down, and what the planning processes say is collected."""
    for name in (SETTING, LOGGING):
        spark.conf.set(name, "true")
    yield
    for name in (SETTING, LOGGING):
        spark.conf.unset(name)


def load(spark, path, **options):
    return spark.read.format("streamlog").options(subscribe="t", **options).load(path)


def offsets(frame):
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


def said(spark):
    """Filters to the share of the bytes that was not read, of every query planned so far."""
    line = re.compile(r"batch query planned: topic=t bytes_total=(\d+) bytes_skipped=(\d+) filters=(.*)")
    found = [line.fullmatch(row.msg) for row in spark.tvf.python_worker_logs().collect()]
    return {one[3]: int(one[2]) / int(one[1]) for one in found if one}


CONDITIONS = {
    "partition = 1 AND key IS NOT NULL": ("partition = 1", 0.45),
    "offset >= 30 AND offset < 40 AND partition IN (0, 7)": (
        "offset >= 30 and offset < 40 and partition in (0, 7)", 0.8,
    ),
    f"timestamp >= timestamp_millis({FIRST_MS + 200_000}) AND topic = 't'": (
        f"timestamp >= {FIRST_MS + 200_000}000 and topic = 't'", 0.6,
    ),
    "key IN (X'6B65792D33', X'00')": ("key in (?, ?)", 0.45),
    "partition % 2 = 1 OR offset = 3": None,
}  # fmt: skip
"""What a query asks, what of it is pushed down, and the least share of the bytes that need not be read then."""


def test_pushed_filters_skip_bytes_and_do_not_change_the_rows(spark, log_dir, pushing):
    found = [offsets(load(spark, log_dir, pushFilters="always").where(condition)) for condition in CONDITIONS]
    everything = load(spark, log_dir).select("partition", "offset", *map(expr, CONDITIONS)).collect()
    assert len(everything) == RECORDS
    for slot, condition in enumerate(CONDITIONS):
        assert found[slot] == sorted((row[0], row[1]) for row in everything if row[2 + slot]), condition
    # A typed key is looked for by its bytes.
    typed = load(spark, log_dir, pushFilters="always", keyFormat="string").where("key = 'key-3'")
    assert offsets(typed) == found[3]
    shares = said(spark)
    for filters, share in [*filter(None, CONDITIONS.values()), ("key = ?", 0.45)]:
        assert 1 > shares[filters] >= share, filters


def test_a_dataframe_that_is_used_twice_has_all_its_rows_each_time(spark, log_dir, pushing):
    # Spark 4.1 to 4.3 reads the second query by the plan of the first: that is why `auto` waits for a later one.
    frame = load(spark, log_dir)
    both = frame.where("partition = 0").union(frame.where("partition = 1"))
    assert both.count() == frame.count() == RECORDS


def test_a_plan_with_pushed_filters_sees_later_records(spark, tmp_path, pushing):
    path = str(tmp_path / "log")
    with open_embedded(path, create=True) as cluster:
        cluster.create_topic("t", configs={"internal.segment.bytes": "200"})
        for key in (b"a", b"b", b"a", b"b"):
            append_records(cluster, "t", Record(key=key, value=b"v" * 100))
        cluster.maintain()
        frame = load(spark, path, pushFilters="always").where("key = X'61' AND offset >= 1").select("offset")
        assert [row.offset for row in frame.collect()] == [2]
        append_records(cluster, "t", Record(key=b"a", value=b"later"))
        assert sorted(row.offset for row in frame.collect()) == [2, 4]


def test_without_sparks_setting_no_filters_are_pushed_and_the_query_succeeds(spark, log_dir):
    assert load(spark, log_dir, pushFilters="always").where("partition = 0").count() == RECORDS / 2
