"""Tasks that do not have the driver's log: every kind of write refuses, and leaves nothing where it ran."""

import pickle
import shutil

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.model.identifiers import TopicPartition
from spark_streamlog.data_source import StreamlogDataSource
from spark_streamlog.errors import ConditionError

QUERY_ID = "73186b39-922e-4208-9ce5-ca7bd052e63b"
SCHEMA = StructType([StructField("value", StringType())])
ROWS = pa.RecordBatch.from_pydict({"value": ["a", "b"]})
DELIVERIES = ["exactly-once", "at-least-once"]


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def planned(request, log, tmp_path):
    """The writer that Spark pickles into a task, as the process that planned has made it."""
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text(f'{{"id":"{QUERY_ID}"}}')

    def plan(kind, delivery):
        given = {"path": str(log), "topic": "t", "delivery": delivery}
        if kind == "batch":
            return StreamlogDataSource(given).writer(SCHEMA, overwrite=False)
        return StreamlogDataSource(given | {"checkpointLocation": str(checkpoint)}).streamWriter(
            SCHEMA, overwrite=False
        )

    return plan


def in_a_task(writer):
    return pickle.loads(pickle.dumps(writer)).write(iter([ROWS]))


def topics_at(log):
    with open_embedded(log) as cluster:
        return set(cluster.describe_topics())


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("kind", ["batch", "stream"])
@pytest.mark.parametrize("found", ["nothing", "an empty directory"])
def test_a_task_that_finds_no_log_fails_and_creates_none(planned, log, kind, delivery, found):
    writer = planned(kind, delivery)
    shutil.rmtree(log)
    if found == "an empty directory":
        log.mkdir()
    with pytest.raises(ConditionError) as caught:
        refused_by(writer, kind, delivery)
    assert caught.value.condition == "STREAMLOG_LOG_NOT_SHARED"
    assert str(log) in caught.value.message
    assert not log.exists() or list(log.iterdir()) == []


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_a_task_that_finds_another_log_fails_and_writes_nothing(planned, log, kind, delivery):
    writer = planned(kind, delivery)
    shutil.rmtree(log)
    with open_embedded(log, create=True) as namesake:
        namesake.create_topic("other")
    with pytest.raises(ConditionError) as caught:
        refused_by(writer, kind, delivery)
    assert caught.value.condition == "STREAMLOG_LOG_NOT_SHARED"
    assert topics_at(log) == {"other"}


def refused_by(writer, kind, delivery):
    """A stream's task asks Spark which batch it writes: outside of Spark it is told here."""
    if kind == "stream" and delivery == "exactly-once":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("spark_streamlog.sink.stream_writer.TaskContext", TaskOfBatchZero)
            in_a_task(writer)
    else:
        in_a_task(writer)


class TaskOfBatchZero:
    @staticmethod
    def get():
        return TaskOfBatchZero

    @staticmethod
    def getLocalProperty(name):
        return {"sql.streaming.queryId": QUERY_ID, "streaming.sql.batchId": "0"}[name]


def test_a_task_that_finds_the_planned_log_writes(planned, log):
    in_a_task(planned("batch", "at-least-once"))
    assert topics_at(log) == {"t"}


def test_a_task_of_a_decided_batch_drains_its_rows_and_writes_none(planned, log, monkeypatch):
    monkeypatch.setattr("spark_streamlog.sink.stream_writer.TaskContext", TaskOfBatchZero)
    for _ in range(2):
        writer = planned("stream", "exactly-once")
        rows = iter([ROWS, ROWS])
        message = pickle.loads(pickle.dumps(writer)).write(rows)
        assert message.row_count == 4
        assert next(rows, None) is None
        writer.commit([message], 0)
        with open_embedded(log) as cluster:
            bounds = cluster.bounds(TopicPartition("t", 0))
        # Four rows and the marker that ends their transaction, however often.
        assert (bounds.last_stable_offset, bounds.log_end_offset) == (5, 5)


@pytest.mark.parametrize(("delivery", "seen"), [("at-least-once", [0, 0, 6, 6, 10]), ("exactly-once", [0] * 5)])
def test_slow_rows_are_readable_while_the_task_runs(planned, log, monkeypatch, delivery, seen):
    # They waited for the end of the task, or for 8 MiB.
    now_s = [0.0]
    monkeypatch.setattr("spark_streamlog.sink.task_writer.time.monotonic", lambda: now_s[0])
    writer = planned("batch", delivery)
    visible = []

    def slow_rows():
        for came_at_s in (0.1, 0.9, 1.5, 2.0, 60.0):
            now_s[0] = came_at_s
            yield ROWS
            with open_embedded(log) as cluster:
                is_there = "t" in cluster.describe_topics()
                bounds = cluster.bounds(TopicPartition("t", 0)) if is_there else None
                visible.append(bounds.last_stable_offset if bounds else 0)

    pickle.loads(pickle.dumps(writer)).write(slow_rows())
    assert visible == seen
