import pyarrow as pa
import pytest

from broker_core.model.identifiers import TopicPartition
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_reader import Record
from broker_core.record.columns import decode
from spark_streamlog.errors import ConditionError
from spark_streamlog.rows.kafka_schema import arrow_schema
from spark_streamlog.rows.record_rows import RecordRows, columns_to_decode
from spark_streamlog.serde.format_settings import CorruptMode, FormatKind, FormatSettings, RecordFormats

EVENTS = TopicPartition("events", 3)
TWO, FIVE = b"\0\0\0\2", b"\0\0\0\5"
RECORDS = [
    Record(key=TWO, value=b"a", timestamp_ms=0),
    Record(key=b"x", value=b"\xff", timestamp_ms=0),
    Record(key=None, value=None, timestamp_ms=0),
    Record(key=FIVE, value=b"\xff", timestamp_ms=0),
]


def rows(key_mode, value_mode):
    formats = RecordFormats(
        key=key_mode and FormatSettings(kind=FormatKind.INT, mode=key_mode),
        value=value_mode and FormatSettings(kind=FormatKind.STRING, mode=value_mode),
    )
    columns = columns_to_decode(include_headers=False)
    decoded = decode(build_batch(RECORDS, base_offset=40), from_offset=40, columns=columns).record_batch
    batch = RecordRows(EVENTS, include_headers=False, formats=formats).to_rows(decoded)
    batch.validate(full=True)
    assert batch.schema.equals(arrow_schema(include_headers=False, formats=formats))
    return batch


def test_permissive_mode_returns_null_and_a_reason_with_the_offset():
    batch = rows(CorruptMode.PERMISSIVE, CorruptMode.PERMISSIVE)
    assert batch.column("key").to_pylist() == [2, None, None, 5]
    assert batch.column("value").to_pylist() == ["a", None, None, None]
    assert batch.column("offset").to_pylist() == [40, 41, 42, 43]
    assert batch.column("_corrupt").to_pylist() == [
        None,
        "key of events-3 at offset 41: int needs 4 bytes, and the value has 1; "
        "value of events-3 at offset 41: not UTF-8: invalid start byte at byte 0",
        None,
        "value of events-3 at offset 43: not UTF-8: invalid start byte at byte 0",
    ]


def test_a_side_without_a_format_stays_binary():
    batch = rows(None, CorruptMode.PERMISSIVE)
    assert batch.column("key").to_pylist() == [TWO, b"x", None, FIVE]
    assert batch.column("_corrupt").null_count == 2


def test_drop_malformed_mode_drops_the_whole_row():
    batch = rows(CorruptMode.DROP_MALFORMED, CorruptMode.DROP_MALFORMED)
    assert batch.column("offset").to_pylist() == [40, 42]
    assert batch.column("topic").to_pylist() == ["events"] * 2


def test_each_side_has_its_own_mode():
    batch = rows(CorruptMode.DROP_MALFORMED, CorruptMode.PERMISSIVE)
    assert batch.column("offset").to_pylist() == [40, 42, 43]
    assert batch.column("_corrupt").to_pylist()[:2] == [None, None]
    assert "value of events-3 at offset 43" in batch.column("_corrupt")[2].as_py()


def test_fail_fast_mode_names_topic_partition_offset_and_reason():
    with pytest.raises(ConditionError) as error:
        rows(CorruptMode.PERMISSIVE, CorruptMode.FAIL_FAST)
    assert error.value.condition == "STREAMLOG_CORRUPT_VALUE"
    assert str(error.value).startswith(
        "[STREAMLOG_CORRUPT_VALUE] The value of topic events partition 3 at offset 41 cannot be read as string: not "
        "UTF-8: invalid start byte at byte 0. With valueFormat.mode=permissive the value is null"
    )


def test_valid_rows_of_a_permissive_format_have_a_null_reason():
    formats = RecordFormats(key=FormatSettings(kind=FormatKind.INT))
    columns = columns_to_decode(include_headers=False)
    decoded = decode(build_batch(RECORDS[:1]), from_offset=0, columns=columns).record_batch
    batch = RecordRows(EVENTS, include_headers=False, formats=formats).to_rows(decoded)
    assert batch.column("_corrupt").equals(pa.nulls(1, pa.string()))
