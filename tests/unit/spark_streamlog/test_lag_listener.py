import logging
from uuid import UUID

from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent

from spark_streamlog.lag_listener import LagListener, lags_of

QUERY, RUN = UUID(int=1), UUID(int=2)


def source(end, latest, description="org.apache.spark.…PythonMicroBatchStreamWithAdmissionControl@1f"):
    return {
        "description": description,
        "startOffset": None,
        "endOffset": end,
        "latestOffset": latest,
        "numInputRows": 0,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
    }


def progress_event(*sources, name="alerts", batch=7):
    return QueryProgressEvent.fromJson(
        {
            "progress": {
                "id": str(QUERY),
                "runId": str(RUN),
                "name": name,
                "timestamp": "2026-01-01T00:00:00.000Z",
                "batchId": batch,
                "batchDuration": 1,
                "durationMs": {},
                "eventTime": {},
                "stateOperators": [],
                "sources": list(sources),
                "sink": {"description": "noop", "numOutputRows": 0},
                "numInputRows": 0,
                "inputRowsPerSecond": 0.0,
                "processedRowsPerSecond": 0.0,
            }
        }
    )


def test_each_streamlog_source_is_reported_with_its_query_and_others_are_ignored():
    told = []
    listener = LagListener(told.append)
    listener.onQueryProgress(
        progress_event(
            source({"t": {"0": 3, "1": 5}}, {"t": {"0": 13, "1": 6}}),
            source({"logOffset": 4}, {"logOffset": 9}, description="FileStreamSource[/in]"),
            source("not JSON", None),
            source({"u": {"0": 2}}, {"u": {"0": 2}}),
        )
    )
    first, second = told
    assert (first.query_id, first.run_id, first.query_name, first.batch_id) == (QUERY, RUN, "alerts", 7)
    assert (first.source, first.topics, second.source, second.topics) == (0, ("t",), 3, ("u",))
    assert first.metrics == {
        "minOffsetsBehindLatest": "1",
        "maxOffsetsBehindLatest": "10",
        "avgOffsetsBehindLatest": "5.5",
    }
    assert str(first) == "query=alerts batch=7 source=streamlog(t) offsets_behind=11 min=1 max=10 avg=5.5"
    assert second.offsets.total == 0


def test_the_newest_lags_are_kept_while_the_query_runs():
    listener = LagListener(lambda lag: None)
    listener.onQueryProgress(progress_event(source({"t": {"0": 0}}, {"t": {"0": 9}})))
    listener.onQueryProgress(progress_event(source({"t": {"0": 9}}, {"t": {"0": 9}}), batch=8))
    (lag,) = listener.latest[RUN]
    assert (lag.batch_id, lag.offsets.total) == (8, 0)
    ended = {"id": str(QUERY), "runId": str(RUN), "exception": None, "errorClassOnException": None}
    listener.onQueryTerminated(QueryTerminatedEvent.fromJson(ended))
    assert listener.latest == {}


def test_without_a_callback_a_line_is_logged(caplog):
    with caplog.at_level(logging.INFO, "spark_streamlog"):
        LagListener().onQueryProgress(progress_event(source({"t": {"0": 0}}, {"t": {"0": 9}}), name=None))
    assert caplog.messages == [f"query={QUERY} batch=7 source=streamlog(t) offsets_behind=9 min=9 max=9 avg=9.0"]


def test_lags_of_a_single_progress_can_be_computed():
    event = progress_event(source({"t": {"0": 1}}, {"t": {"0": 3}}))
    (lag,) = lags_of(event.progress)
    assert lag.offsets.total == 2
