import pickle

import pytest

from spark_streamlog.errors import ConditionError
from spark_streamlog.foreach_batch import write_to

QUERY_ID = "73186b39-922e-4208-9ce5-ca7bd052e63b"


class Frame:
    """A DataFrame whose writer notes what is asked of it; `properties` are those of the thread that runs the batch."""

    def __init__(self, properties=()):
        self.options_given, self.saved, self.mode_given = {}, 0, None
        self.sparkSession = self.sparkContext = self.write = self
        self._properties = dict(properties)

    def getLocalProperty(self, name):
        return self._properties.get(name)

    def format(self, name):
        assert name == "streamlog"
        return self

    def mode(self, name):
        self.mode_given = name
        return self

    def options(self, **options):
        self.options_given |= options
        return self

    def option(self, name, value):
        return self.options(**{name: value})

    def save(self):
        self.saved += 1


def test_a_batch_is_appended_with_the_query_id_and_batch_id():
    frame = Frame({"sql.streaming.queryId": QUERY_ID})
    pickle.loads(pickle.dumps(write_to("/log", topic="t", options={"topic.partitions": 2})))(frame, 7)
    assert (frame.mode_given, frame.saved) == ("append", 1)
    assert frame.options_given == {
        "path": "/log", "topic": "t", "topic.partitions": "2",
        "txnAppId": f"foreachBatch-{QUERY_ID}", "txnVersion": 7,
    }  # fmt: skip


def test_app_id_replaces_the_query_id():
    frame = Frame()
    write_to(topic="t", app_id="totals", options={"kafka.bootstrap.servers": "a:1"})(frame, 0)
    assert (frame.options_given["txnAppId"], frame.options_given["txnVersion"]) == ("totals", 0)
    assert "path" not in frame.options_given


def test_without_a_query_id_from_spark_app_id_is_required():
    frame = Frame()
    with pytest.raises(ConditionError, match="Pass an app_id to write_to") as caught:
        write_to("/log", topic="t")(frame, 0)
    assert caught.value.condition == "STREAMLOG_FOREACH_BATCH_NEEDS_APP_ID"
    assert frame.saved == 0


def test_at_least_once_needs_no_query_id():
    frame = Frame()
    write_to("/log", topic="t", options={"delivery": "at-least-once"})(frame, 3)
    assert frame.saved == 1
    assert "txnVersion" not in frame.options_given


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"path": "/log", "options": {"topik": "t"}}, "did you mean topic?"),
        ({"topic": "t"}, "path is missing"),
        ({"path": "/log", "app_id": " "}, "txnAppId must have 1 to 256 characters"),
        (
            {"path": "/log", "options": {"txnVersion": 3}},
            "write_to(…) does not accept txnVersion: it writes each micro-batch",
        ),
        (
            {"path": "/log", "app_id": "a", "options": {"delivery": "at-least-once"}},
            "txnAppId and txnVersion need delivery=exactly-once",
        ),
    ],
)
def test_invalid_arguments_are_refused_before_a_stream_starts(arguments, words):
    with pytest.raises(ConditionError) as caught:
        write_to(**arguments)
    assert words in caught.value.message
