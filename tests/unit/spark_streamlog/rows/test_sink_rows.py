"""Spark's Arrow batches, split by topic."""

import pyarrow as pa
import pytest

from spark_streamlog.errors import ConditionError
from spark_streamlog.rows.sink_columns import SinkColumns, TypedColumn
from spark_streamlog.rows.sink_rows import SinkRows
from spark_streamlog.serde.format_settings import FormatKind, FormatSettings


def rows_of(*record_columns, topic_option=None):
    columns = SinkColumns(record_columns=record_columns, has_topic=topic_option is None)
    return SinkRows(columns, topic_option=topic_option, task=7)


def split(rows, batch):
    return [(topic, records.to_pydict()) for topic, records in rows.by_topic(batch)]


def test_the_option_topic_applies_to_all_rows():
    batch = pa.RecordBatch.from_pydict({"value": ["a", "b"], "topic": ["x", None]})
    ((topic, records),) = rows_of("value", topic_option="t").by_topic(batch)
    assert topic == "t"
    assert records.column("value").buffers()[2].address == batch.column("value").buffers()[2].address


def test_each_topic_gets_its_rows_in_order():
    batch = pa.RecordBatch.from_pydict({"topic": ["b", "a", "b", "a", "b"], "value": ["0", "1", "2", "3", "4"]})
    assert split(rows_of("value"), batch) == [("b", {"value": ["0", "2", "4"]}), ("a", {"value": ["1", "3"]})]


def test_a_batch_with_one_topic_is_not_copied():
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


def test_an_empty_batch_has_no_topics_and_rows_are_counted():
    rows = rows_of("value", topic_option="t")
    assert split(rows, pa.RecordBatch.from_pydict({"value": pa.array([], pa.string())})) == []
    split(rows, pa.RecordBatch.from_pydict({"value": ["a", "b"]}))
    assert rows.row_count == 2


def typed_rows(**kinds):
    arrow_types = {FormatKind.LONG: pa.int64(), FormatKind.AVRO: pa.struct([pa.field("a", pa.int32())])}
    schema = '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}'
    typed = tuple(
        TypedColumn(
            name=name,
            settings=FormatSettings(kind=kind, schema_text=schema if kind is FormatKind.AVRO else None),
            arrow_type=arrow_types[kind],
        )
        for name, kind in kinds.items()
    )
    columns = SinkColumns(record_columns=("value", "key"), has_topic=False, typed=typed)
    return SinkRows(columns, topic_option="t", task=7)


def test_columns_with_a_format_become_bytes_and_null_stays_null():
    batch = pa.RecordBatch.from_pydict({"value": [5, None], "key": ["k", None]})
    ((_, records),) = typed_rows(value=FormatKind.LONG).by_topic(batch)
    assert records.to_pydict() == {"value": [b"\0" * 7 + b"\5", None], "key": ["k", None]}


def test_timestamps_in_other_zones_and_large_types_are_accepted():
    batch = pa.RecordBatch.from_pydict({"value": pa.array([5], pa.int32()), "key": [b"k"]})
    ((_, records),) = typed_rows(value=FormatKind.LONG).by_topic(batch)
    assert records.column("value").to_pylist() == [b"\0" * 7 + b"\5"]


def test_a_row_that_does_not_fit_its_format_is_refused_with_its_position_in_the_task():
    kind = pa.struct([pa.field("a", pa.int32())])
    rows = typed_rows(value=FormatKind.AVRO)
    good = pa.RecordBatch.from_arrays([pa.array([{"a": 1}] * 10, kind), pa.nulls(10, pa.string())], ["value", "key"])
    ((_, records),) = rows.by_topic(good)
    assert records.column("value").to_pylist() == [b"\2"] * 10
    bad = pa.RecordBatch.from_arrays([pa.array([{"a": 1}, None, {}], kind), pa.nulls(3, pa.string())], ["value", "key"])
    with pytest.raises(
        ConditionError, match=r"column value cannot be written as avro in row 12 .* of task 7: a is null"
    ):
        list(rows.by_topic(bad))
