"""Batches built record by record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.builders import a_batch, a_record, some_records

from broker_core.model.exceptions import InvalidRecordError
from broker_core.model.identifiers import CompressionType, TimestampType
from broker_core.record.batch_builder import build_batch, build_empty_batch, record_bytes
from broker_core.record.batch_header import HEADER_BYTES, read_header
from broker_core.record.batch_reader import Record, check_crc, records_of

int64 = st.integers(-(2**62), 2**62)
maybe_bytes = st.none() | st.binary(max_size=300)
record = st.builds(
    Record,
    key=maybe_bytes,
    value=maybe_bytes,
    timestamp_ms=int64,
    headers=st.lists(st.tuples(st.text(max_size=9), maybe_bytes), max_size=4).map(tuple),
)


@given(st.lists(record, min_size=1, max_size=20), st.sampled_from(CompressionType), st.integers(0, 2**62))
def test_a_built_batch_reads_back(records, codec, base_offset):
    batch = build_batch(records, base_offset=base_offset, compression=codec)
    found = list(records_of(batch))
    assert [(r.key, r.value, r.timestamp_ms, r.headers) for r in found] == [
        (r.key, r.value, r.timestamp_ms, r.headers) for r in records
    ]
    assert [r.offset for r in found] == list(range(base_offset, base_offset + len(records)))
    assert read_header(batch).max_timestamp == max(r.timestamp_ms for r in records)


@given(record, st.integers(0, 2**31 - 1), int64)
def test_record_bytes_is_the_size_of_the_record(one, offset_delta, base_timestamp):
    batch = build_batch(
        [Record(offset=offset_delta, timestamp_ms=one.timestamp_ms, key=one.key, value=one.value, headers=one.headers)],
        delete_horizon_ms=base_timestamp,
    )
    delta = one.timestamp_ms - base_timestamp
    assert len(batch) - HEADER_BYTES == record_bytes(one, offset_delta=offset_delta, timestamp_delta=delta)


def test_a_batch_has_the_expected_bytes():
    batch = build_batch([Record(key=b"k", value=b"v", timestamp_ms=1, headers=(("h", None),))])
    start = "0000000000000000 0000003d ffffffff 02"
    end = """0000 00000000 0000000000000001 0000000000000001 ffffffffffffffff ffff ffffffff 00000001
             16 00 00 00 02 6b 02 76 02 02 68 01"""
    assert batch == bytes.fromhex(start) + batch[17:21] + bytes.fromhex(end)
    check_crc(batch, 0, read_header(batch))


def test_offsets_must_ascend_and_stay_below_the_last_delta():
    with pytest.raises(InvalidRecordError, match="ascend"):
        build_batch([Record(offset=1), Record(offset=1)])
    with pytest.raises(InvalidRecordError, match="last offset delta"):
        build_batch(some_records(3), last_offset_delta=1)


def test_offset_gaps_of_compaction_are_kept():
    batch = build_batch(
        [Record(offset=11, value=b"a"), Record(offset=14, value=b"b")], base_offset=10, last_offset_delta=9
    )
    header = read_header(batch)
    assert (header.last_offset, header.record_count) == (19, 2)
    assert [r.offset for r in records_of(batch)] == [11, 14]


def test_an_emptied_batch_keeps_offsets_and_the_producers_last_sequence():
    header = read_header(a_batch(5, base_offset=20, producer=(3, 1, 9), compression=CompressionType.ZSTD))
    empty = build_empty_batch(header)
    found = read_header(empty)
    assert len(empty) == HEADER_BYTES
    assert (found.last_offset, found.last_sequence, found.record_count) == (24, 13, 0)
    assert found.base_timestamp == found.max_timestamp == header.max_timestamp
    check_crc(empty, 0, found)


def test_log_append_time_is_stored_in_the_batch():
    batch = build_batch([a_record()], timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=8)
    assert next(records_of(batch)).timestamp_ms == 8
