"""Spark's Arrow batches, split by topic."""

import pyarrow as pa
import pytest

from spark_streamlog.errors import ConditionError
from spark_streamlog.rows.sink_columns import SinkColumns
from spark_streamlog.rows.sink_rows import SinkRows


def rows_of(*record_columns, topic_option=None):
    columns = SinkColumns(record_columns=record_columns, has_topic=topic_option is None)
    return SinkRows(columns, topic_option=topic_option, task=7)


def split(rows, batch):
    return [(topic, records.to_pydict()) for topic, records in rows.by_topic(batch)]


def test_the_option_topic_takes_all_rows_and_text_stays_text():
    batch = pa.RecordBatch.from_pydict({"value": ["a", "b"], "topic": ["x", None]})
    ((topic, records),) = rows_of("value", topic_option="t").by_topic(batch)
    assert topic == "t"
    assert records.column("value").buffers()[2].address == batch.column("value").buffers()[2].address


def test_each_topic_gets_its_rows_in_order():
    batch = pa.RecordBatch.from_pydict({"topic": ["b", "a", "b", "a", "b"], "value": ["0", "1", "2", "3", "4"]})
    assert split(rows_of("value"), batch) == [("b", {"value": ["0", "2", "4"]}), ("a", {"value": ["1", "3"]})]


def test_one_topic_in_the_column_costs_no_copy():
    batch = pa.RecordBatch.from_pydict({"topic": ["a", "a"], "value": ["0", "1"]})
    ((_, records),) = rows_of("value").by_topic(batch)
    assert records.column("value").buffers()[2].address == batch.column("value").buffers()[2].address


def test_a_null_topic_is_refused_with_the_rows_position_in_the_task():
    rows = rows_of("value")
    split(rows, pa.RecordBatch.from_pydict({"topic": ["a"] * 10, "value": ["v"] * 10}))
    with pytest.raises(ConditionError, match=r"null in row 12 .* of task 7") as caught:
        split(rows, pa.RecordBatch.from_pydict({"topic": ["a", "a", None], "value": ["v"] * 3}))
    assert caught.value.condition == "KAFKA_NULL_TOPIC_IN_DATA"


def test_a_time_before_1970_is_refused_with_the_rows_position():
    times = pa.array([0, None, -1], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_pydict({"value": ["a", "b", "c"], "timestamp": times})
    with pytest.raises(ConditionError, match=r"1970 in row 2 .* of task 7"):
        split(rows_of("value", "timestamp", topic_option="t"), batch)


def test_an_empty_batch_gives_nothing_and_rows_are_counted():
    rows = rows_of("value", topic_option="t")
    assert split(rows, pa.RecordBatch.from_pydict({"value": pa.array([], pa.string())})) == []
    split(rows, pa.RecordBatch.from_pydict({"value": ["a", "b"]}))
    assert rows.row_count == 2
