"""Rows with old timestamps: what the driver says of them, and how often."""

import pickle
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from broker_core.record.expired_rows import ExpiredRows
from spark_streamlog.data_source import StreamlogDataSource
from spark_streamlog.sink import expired_rows_warning
from spark_streamlog.sink.expired_rows_warning import warn_of_expired

QUERY_ID = "73186b39-922e-4208-9ce5-ca7bd052e63b"
SCHEMA = StructType([StructField("value", StringType()), StructField("timestamp", TimestampType())])
OLD = datetime(2013, 1, 1, 5, tzinfo=UTC)
ROWS = pa.RecordBatch.from_pydict(
    {"value": ["a", "b"], "timestamp": pa.array([OLD, datetime.now(UTC)], pa.timestamp("us", tz="UTC"))}
)
EXPIRED = {"t": ExpiredRows(row_count=2, oldest_ms=0, retention_ms=1000)}


@pytest.fixture(params=[True, False], ids=["with a local directory", "without one"])
def application(request, tmp_path, monkeypatch):
    """A run of the driver: the same directory in all its processes."""
    if request.param:
        monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    else:
        monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(expired_rows_warning, "_told", set())


def said(caplog):
    return [record.getMessage() for record in caplog.records if record.name == expired_rows_warning.__name__]


@pytest.fixture
def commit(tmp_path):
    """Writes the rows and commits them, as Spark does in several processes; `batch_id` is None for a batch write."""
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text(f'{{"id":"{QUERY_ID}"}}')
    given = {"path": str(tmp_path / "log"), "topic": "t"}

    def commit(batch_id, **options):
        if batch_id is None:
            writer = StreamlogDataSource(given | options).writer(SCHEMA, overwrite=False)
        else:
            of_stream = given | {"checkpointLocation": str(checkpoint)} | options
            writer = StreamlogDataSource(of_stream).streamWriter(SCHEMA, overwrite=False)
        tasks = [pickle.loads(pickle.dumps(writer)) for _ in range(1 if "delivery" not in options else 2)]
        messages = [pickle.loads(pickle.dumps(task.write(iter([ROWS])))) for task in tasks]
        writer.commit([*messages, None], *([] if batch_id is None else [batch_id]))

    return commit


@pytest.mark.usefixtures("application")
def test_a_batch_write_tells_topic_setting_count_and_oldest(commit, caplog):
    commit(None, delivery="at-least-once")
    assert said(caplog) == [
        "2 rows were written to topic 't' with timestamps older than its retention.ms=604800000 keeps records, the"
        " oldest of 2013-01-01T05:00:00.000+00:00: they may be deleted soon. retention.ms=-1 keeps them (streamlog"
        " topic alter t --config retention.ms=-1, or the option topic.config.retention.ms for a topic that the write"
        " creates)"
    ]
    commit(None, delivery="at-least-once")
    assert len(said(caplog)) == 2, "another write"


@pytest.mark.usefixtures("application")
def test_a_stream_tells_it_once(commit, caplog):
    commit(0, delivery="at-least-once", **{"topic": "kept", "topic.config.retention.ms": "-1"})
    assert said(caplog) == []
    commit(1, delivery="at-least-once")
    commit(2, delivery="at-least-once")
    assert len(said(caplog)) == 1


@pytest.mark.usefixtures("application")
def test_an_exactly_once_write_tells_it_after_its_commit(commit, caplog):
    commit(None)
    [text] = said(caplog)
    assert text.startswith("1 rows were written to topic 't'")


@pytest.mark.usefixtures("application")
def test_queries_and_topics_are_told_apart(caplog):
    for write in ("one", "other"):
        for topics in (["t"], ["t", "u"]):
            warn_of_expired(dict.fromkeys(topics, EXPIRED["t"]), write=write)
    assert [text.split("'")[1] for text in said(caplog)] == ["t", "u", "t", "u"]


def test_a_time_before_all_calendars_is_told_as_it_is(caplog):
    warn_of_expired({"t": ExpiredRows(row_count=1, oldest_ms=-(2**63), retention_ms=1)}, write=None)
    assert "-9223372036854775808 ms" in said(caplog)[0]
