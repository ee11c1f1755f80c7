import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker_core.log.batch_filter import filter_batch
from broker_core.model.exceptions import CorruptBatchError
from broker_core.model.identifiers import CompressionType, TimestampType
from broker_core.model.topic_config import TopicConfig
from broker_core.record.batch_builder import build_batch
from broker_core.record.batch_header import read_header, write_crc
from broker_core.record.batch_reader import Record, check_crc, records_of

CONFIG = TopicConfig()


def kept(batch: bytearray, survives, **more) -> bytearray:
    result = filter_batch(read_header(batch), memoryview(batch), survives, config=CONFIG, **more)
    header = read_header(result)
    check_crc(result, 0, header)
    assert header.size_bytes == len(result)
    return result


some_records = st.lists(
    st.builds(
        Record,
        key=st.none() | st.binary(max_size=20),
        value=st.none() | st.binary(max_size=200),
        timestamp_ms=st.integers(0, 2**41),
        headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None)
@given(
    some_records,
    st.data(),
    st.sampled_from(list(CompressionType)),
    st.none() | st.integers(0, 2**42),
    st.integers(0, 10**12),
)
def test_survivors_are_the_same_records_at_the_same_offsets(records, data, codec, horizon_ms, base_offset):
    batch = build_batch(
        records, base_offset=base_offset, compression=codec, producer_id=3, producer_epoch=1, base_sequence=9
    )
    survives = data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records)).filter(any))
    result = kept(batch, survives, delete_horizon_ms=horizon_ms)
    expected = [record for record, is_kept in zip(records_of(batch), survives, strict=True) if is_kept]
    assert list(records_of(result)) == expected
    before, after = read_header(batch), read_header(result)
    assert after.delete_horizon_ms == horizon_ms
    assert after.max_timestamp == max(record.timestamp_ms for record in expected)
    for name in ("base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence", "last_sequence"):
        assert getattr(after, name) == getattr(before, name)
    assert after.compression_type is codec


def test_an_existing_delete_horizon_is_kept():
    batch = build_batch([Record(key=b"a", timestamp_ms=5), Record(key=b"b", timestamp_ms=7)], delete_horizon_ms=99)
    result = kept(batch, [False, True])
    assert read_header(result).delete_horizon_ms == 99
    assert [record.timestamp_ms for record in records_of(result)] == [7]


def test_compaction_keeps_log_append_time():
    batch = build_batch(
        [Record(key=b"a", timestamp_ms=5), Record(key=b"b", timestamp_ms=7)],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time_ms=1_000,
    )
    result = kept(batch, [True, False], delete_horizon_ms=2_000)
    assert read_header(result).max_timestamp == 1_000
    assert [record.timestamp_ms for record in records_of(result)] == [1_000]


def test_content_that_is_not_records_is_corrupt():
    batch = build_batch([Record(key=b"a", timestamp_ms=5), Record(key=b"b", timestamp_ms=7)])
    for wrong in (0x7F, 0xFF, 1):
        damaged = bytearray(batch)
        damaged[61] = wrong
        write_crc(damaged, 0)
        with pytest.raises(CorruptBatchError):
            filter_batch(read_header(damaged), memoryview(damaged), [False, True], config=CONFIG)
