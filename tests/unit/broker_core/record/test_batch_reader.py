"""Batches of a buffer one at a time, and their records as values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.builders import SOME_TIME_MS, a_batch, a_batch_of_content, a_log, a_record, with_header_field

from broker_core.model.exceptions import CorruptBatchError
from broker_core.model.identifiers import CompressionType, TimestampType
from broker_core.record.batch_builder import build_empty_batch
from broker_core.record.batch_header import read_header
from broker_core.record.batch_reader import (
    Record,
    check_crc,
    inspect_records,
    iter_headers,
    records_of,
    scan_batches,
)
from broker_core.record.faults import relocated
from broker_core.record.kernel_protocol import Cell

THREE = a_log(a_batch(2), a_batch(3, base_offset=2), a_batch(1, base_offset=5))


def test_headers_are_returned_with_their_positions():
    found = [(position, header.base_offset) for position, header in iter_headers(THREE)]
    assert [offset for _, offset in found] == [0, 2, 5]
    assert [read_header(THREE, position).base_offset for position, _ in found] == [0, 2, 5]


def test_an_incomplete_batch_at_the_end_is_skipped():
    for cut in range(1, len(a_batch(1))):
        assert len(list(iter_headers(THREE[:-cut]))) == 2, cut
        assert scan_batches(THREE[:-cut]).bytes_scanned == len(THREE) - len(a_batch(1)), cut


def test_until_ends_the_iteration():
    assert len(list(iter_headers(THREE, until=len(THREE) - 1))) == 2


def test_iteration_can_start_at_a_later_batch():
    start = len(a_batch(2))
    assert [header.base_offset for _, header in iter_headers(THREE, position=start)] == [2, 5]


def test_trailing_zeros_are_corrupt_for_readers_and_the_end_for_recovery():
    padded = THREE + bytes(1000)
    with pytest.raises(CorruptBatchError):
        list(iter_headers(padded))
    assert scan_batches(padded).bytes_scanned == len(THREE)


def test_a_wrong_crc_is_detected_and_ends_the_valid_prefix():
    broken = bytearray(THREE)
    broken[-1] ^= 1
    position, header = list(iter_headers(broken))[-1]
    with pytest.raises(CorruptBatchError, match="checksum"):
        check_crc(broken, position, header)
    scanned = scan_batches(broken)
    assert scanned.bytes_scanned == position
    assert scanned.fault.position == position
    assert scanned.fault.offset == 5
    assert scan_batches(broken, check_crc=False).fault is None


def test_a_batch_longer_than_the_buffer_fails_the_crc_check():
    batch = a_batch()
    with pytest.raises(CorruptBatchError, match="are left"):
        check_crc(batch[:-1], 0, read_header(batch))


@given(st.binary(max_size=200), st.integers(0, len(THREE)))
def test_scanning_the_valid_prefix_again_gives_the_same(junk, cut):
    data = THREE[:cut] + junk
    size = scan_batches(data).bytes_scanned
    assert scan_batches(data[:size]).bytes_scanned == size


def test_a_scan_gives_headers_and_columns():
    table = scan_batches(THREE).table
    assert len(table) == 3
    assert [table.header(row) for row in range(3)] == [header for _, header in iter_headers(THREE)]
    assert table.header(-1) == table.header(2)
    assert table.column(Cell.BASE_OFFSET).tolist() == [0, 2, 5]
    assert table.position(1) == len(a_batch(2))


@pytest.mark.parametrize("codec", CompressionType)
def test_records_round_trip_with_every_codec(codec):
    records = [
        a_record(0, key=None, value=None),
        a_record(1, key=b"", value=b"", headers=(("", b""), ("", None))),
        a_record(2, timestamp_ms=-1, headers=(("h", b"1"), ("h", b"2"), ("ünï", b"\xff"))),
    ]
    batch = a_batch(records, base_offset=7, compression=codec)
    assert [(r.key, r.value, r.timestamp_ms, r.headers) for r in records_of(batch)] == [
        (r.key, r.value, r.timestamp_ms, r.headers) for r in records
    ]
    assert [r.offset for r in records_of(batch)] == [7, 8, 9]


def test_header_keys_that_are_not_utf8_get_replacement_characters():
    content = b"\x14\x00\x00\x00\x01\x01\x02\x02\xff\x02x"
    assert next(records_of(a_batch_of_content(content))).headers == (("\ufffd", b"x"),)


def test_inspection_summarizes_the_content():
    records = [a_record(0, timestamp_ms=5), a_record(1, key=None, timestamp_ms=9), a_record(2, timestamp_ms=7)]
    summary = inspect_records(a_batch(records, base_offset=100, compression=CompressionType.LZ4))
    assert summary == (3, 9, 101, 1, True)


def test_inspection_detects_gaps():
    gap = a_batch([Record(value=b"a", offset=0), Record(value=b"b", offset=2)])
    tail = a_batch([Record(value=b"a", offset=0)], last_offset_delta=1)
    assert not inspect_records(gap).is_contiguous
    assert not inspect_records(tail).is_contiguous


def test_inspection_with_log_append_time_gives_the_batch_timestamp():
    batch = a_batch(timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=3)
    assert inspect_records(batch).max_timestamp_ms == 3


@pytest.mark.parametrize("base_offset", [-1, -(2**63), 2**63 - 1])
def test_inspection_ignores_the_base_offset_of_the_producer(base_offset):
    batch = with_header_field(a_batch(), 0, ">q", base_offset)
    assert inspect_records(batch).max_timestamp_ms == SOME_TIME_MS + 2


def test_an_empty_batch_has_no_records():
    empty = build_empty_batch(read_header(a_batch(compression=CompressionType.GZIP)))
    assert list(records_of(empty)) == []
    assert inspect_records(empty) == (0, -1, -1, 0, False)


def test_an_error_can_be_relocated_to_its_file_position():
    batch = a_batch(base_offset=9)
    batch[-1] ^= 1
    with pytest.raises(CorruptBatchError) as caught:
        list(records_of(b"12" + batch, 2))
    moved = relocated(caught.value, file="/d/0.log", shift_bytes=1000)
    assert (moved.file, moved.position, moved.offset) == ("/d/0.log", 1002, 9)
    assert "/d/0.log, position 1002" in str(moved)
