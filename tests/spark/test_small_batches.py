"""Small micro-batches are read where they are planned and handed to Spark with the plan: nothing else changes."""

import pytest
from support.builders.append_records import append_records, append_values

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.record.batch_reader import Record

ON_DRIVER, IN_TASKS = {}, {"smallBatchOffsets": "0"}


@pytest.fixture
def log(log_dir):
    with open_embedded(log_dir, create=True) as cluster:
        cluster.create_topic("t", partition_count=2, configs={"retention.ms": "-1"})
        yield cluster


def rows_of(spark, log_dir, folder, options, columns):
    """All rows that one run with Trigger.AvailableNow reads, sorted."""
    frame = spark.readStream.format("streamlog").options(subscribe="t", startingOffsets="earliest", **options)
    query = (
        frame.load(log_dir)
        .selectExpr(*columns)
        .writeStream.format("memory")
        .queryName(folder.name)
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.lastProgress.sources[0].latestOffset is not None, "the log's end stays in the query's progress"
    return sorted(map(str, spark.table(folder.name).collect())), sum(one.numInputRows for one in query.recentProgress)


def test_a_small_batch_has_one_task_and_other_batches_have_their_usual_tasks(spark, log, log_dir, tmp_path):
    for partition in (0, 1):
        append_values(log, "t", "a", "b", partition=partition)
    columns = ("spark_partition_id() AS task", "partition")
    by_driver, count = rows_of(spark, log_dir, tmp_path / "by_driver", ON_DRIVER, columns)
    assert (len({row.split(",")[0] for row in by_driver}), count) == (1, 4)
    by_tasks, count = rows_of(spark, log_dir, tmp_path / "by_tasks", IN_TASKS, columns)
    assert (len({row.split(",")[0] for row in by_tasks}), count) == (2, 4)


FORMATS = {
    "binary": {},
    "headers": {"includeHeaders": "true"},
    "json": {"valueFormat": "json", "valueFormat.schema": "a INT, b ARRAY<STRUCT<c: STRING, d: DECIMAL(9,2)>>, e DATE"},
    "json and headers": {
        "includeHeaders": "true",
        "keyFormat": "string",
        "valueFormat": "json",
        "valueFormat.schema": "a BIGINT, m MAP<STRING, DOUBLE>, t TIMESTAMP",
    },
}


IN_SHORT = ("json and headers",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_SHORT else pytest.mark.long) for name in FORMATS]
)
def test_small_batches_and_tasks_return_the_same_rows(spark, log, log_dir, tmp_path, name):
    json_text = (
        b'{"a": 1, "b": [{"c": "x", "d": 1.25}], "e": "2026-01-01", "m": {"k": 0.5}, "t": "2026-01-01T00:00:00Z"}'
    )
    append_records(
        log,
        "t",
        Record(key=b"k", value=json_text, timestamp_ms=1_000, headers=(("h", b"v"), ("n", None))),
        Record(key=None, value=None, timestamp_ms=2_000),
        Record(key=b"", value=b"no json", timestamp_ms=3_000),
    )
    append_values(log, "t", json_text, partition=1)
    ways = [
        rows_of(spark, log_dir, tmp_path / way, FORMATS[name] | options, ("*",))
        for way, options in (("driver", ON_DRIVER), ("tasks", IN_TASKS))
    ]
    assert ways[0] == ways[1]
    assert ways[0][1] == 4


@pytest.mark.parametrize(
    "options", [pytest.param(ON_DRIVER, id="driver"), pytest.param(IN_TASKS, id="tasks", marks=pytest.mark.long)]
)
def test_an_unfinished_small_batch_is_read_again(log, stream, options):
    append_values(log, "t", "a", "b")
    append_values(log, "t", "c", partition=1)
    driver = stream(**options).start()
    driver.process_all()
    driver.stop()
    driver.forget_commit_of(0)
    append_values(log, "t", "d")
    assert stream(**options).start().process_all() == ["a", "b", "c", "d"]
