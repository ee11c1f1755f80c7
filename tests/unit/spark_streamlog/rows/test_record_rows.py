import pyarrow as pa

from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record
from broker_core.record.columns import decode
from spark_streamlog.rows.kafka_schema import arrow_schema
from spark_streamlog.rows.record_rows import RecordRows, columns_to_decode


def decoded(records, *, include_headers=False):
    columns = columns_to_decode(include_headers=include_headers)
    return decode(build_batch(records), from_offset=0, columns=columns).record_batch


def test_rows_have_kafkas_columns_in_order():
    rows = RecordRows(TopicPartition("events", 3), include_headers=False)
    batch = rows.to_rows(decoded([Record(key=b"k", value=b"v", timestamp_ms=1_500), Record(timestamp_ms=1_501)]))
    assert batch.schema.equals(arrow_schema(include_headers=False))
    first, second = batch.to_pylist()
    assert (first["key"], first["value"], first["topic"], first["partition"]) == (b"k", b"v", "events", 3)
    assert (first["offset"], first["timestamp"].timestamp(), first["timestampType"]) == (0, 1.5, 0)
    assert (second["key"], second["value"], second["offset"]) == (None, None, 1)


def test_headers_keep_repeated_keys_in_order_and_a_record_without_headers_has_null():
    records = [Record(timestamp_ms=0, headers=(("a", b"1"), ("b", None), ("a", b""))), Record(timestamp_ms=0)]
    rows = RecordRows(TopicPartition("events", 0), include_headers=True)
    batch = rows.to_rows(decoded(records, include_headers=True))
    assert batch.schema.equals(arrow_schema(include_headers=True))
    assert batch.column("headers").to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}, {"key": "a", "value": b""}],
        None,
    ]


def test_constant_columns_are_built_once_and_sliced():
    rows = RecordRows(TopicPartition("events", 0), include_headers=False)
    long = rows.to_rows(decoded([Record(timestamp_ms=0)] * 50))
    short = rows.to_rows(decoded([Record(timestamp_ms=0)] * 7))
    assert short.column("topic").to_pylist() == ["events"] * 7
    assert short.column("topic").buffers()[2].address == long.column("topic").buffers()[2].address


def test_rows_round_trip_through_arrows_stream_format():
    rows = RecordRows(TopicPartition("events", 0), include_headers=False)
    rows.to_rows(decoded([Record(timestamp_ms=0)] * 50))
    batch = rows.to_rows(decoded([Record(value=b"x", timestamp_ms=0)] * 3))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    assert pa.ipc.open_stream(sink.getvalue()).read_all().num_rows == 3
