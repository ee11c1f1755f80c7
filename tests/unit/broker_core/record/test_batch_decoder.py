"""Whole batches of a buffer to Arrow columns."""

import datetime as dt
import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.builders import (
    SOME_TIME_MS,
    a_batch,
    a_batch_of_content,
    a_commit_marker,
    a_log,
    a_record,
    a_transactional_batch,
    an_abort_marker,
    rows_of,
    some_records,
)

from broker_core.cluster import AbortedTransaction
from broker_core.model.exceptions import CorruptBatchError, UnsupportedFormatError
from broker_core.model.identifiers import CompressionType, TimestampType
from broker_core.record import active_kernel
from broker_core.record.aborted_filter import AbortedFilter
from broker_core.record.batch_builder import build_batch, build_empty_batch
from broker_core.record.batch_decoder import decode
from broker_core.record.batch_header import read_header
from broker_core.record.batch_reader import Record
from broker_core.record.column_buffers import ALL_COLUMNS, DECODED_SCHEMA

KERNELS = [k for k in (active_kernel.NATIVE_KERNEL, active_kernel.PURE_KERNEL) if k is not None]


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.KERNEL_NAME)
def kernel(request):
    return request.param


def offsets(decoded):
    return decoded.record_batch.column("offset").to_pylist()


LOG = a_log(a_batch(3), a_batch(4, base_offset=3, compression=CompressionType.LZ4), a_batch(2, base_offset=7))


def test_all_columns_have_the_types_of_sparks_schema(kernel):
    headers = (("h", b"1"), ("h", None), ("", b""))
    batch = a_batch([a_record(0, headers=headers), a_record(1, key=None, value=b""), a_record(2, key=b"", value=None)])
    decoded = decode(batch, from_offset=0, columns=ALL_COLUMNS, kernel=kernel)
    decoded.record_batch.validate(full=True)
    assert decoded.record_batch.schema == DECODED_SCHEMA
    header_list = [{"key": key, "value": value} for key, value in headers]
    assert rows_of(decoded.record_batch) == [
        (b"key-0", b"value-0", 0, SOME_TIME_MS * 1000, 0, header_list),
        (None, b"", 1, SOME_TIME_MS * 1000 + 1000, 0, None),
        (b"", None, 2, SOME_TIME_MS * 1000 + 2000, 0, None),
    ]
    assert decoded.record_batch.column("timestamp")[0].as_py() == dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)


@pytest.mark.parametrize("wanted", [c for n in (0, 1, 2) for c in itertools.combinations(sorted(ALL_COLUMNS), n)])
def test_only_requested_columns_are_decoded_and_rows_are_still_counted(kernel, wanted):
    decoded = decode(LOG, from_offset=1, columns=frozenset(wanted), kernel=kernel)
    assert set(decoded.record_batch.schema.names) == set(wanted)
    assert decoded.record_batch.num_rows == 8


def test_headers_are_decoded_only_on_request(kernel):
    assert "headers" not in decode(LOG, from_offset=0, kernel=kernel).record_batch.schema.names


@pytest.mark.parametrize("from_offset", range(10))
def test_rows_outside_the_range_are_dropped(kernel, from_offset):
    for until_offset in range(10):
        decoded = decode(LOG, from_offset=from_offset, until_offset=until_offset, kernel=kernel)
        assert offsets(decoded) == list(range(from_offset, until_offset))
        assert decoded.next_offset == max(from_offset, until_offset)


def test_an_incomplete_last_batch_is_ignored(kernel):
    whole = len(LOG) - len(a_batch(2))
    for cut in range(1, len(a_batch(2))):
        decoded = decode(LOG[:-cut], from_offset=0, kernel=kernel)
        assert (offsets(decoded), decoded.next_offset) == (list(range(7)), 7)
        assert decoded.bytes_consumed == whole


def test_an_empty_buffer_changes_nothing(kernel):
    decoded = decode(b"", from_offset=5, columns=ALL_COLUMNS, kernel=kernel)
    assert (decoded.record_batch.num_rows, decoded.next_offset, decoded.bytes_consumed) == (0, 5, 0)
    assert decoded.record_batch.schema == DECODED_SCHEMA
    decoded.record_batch.validate(full=True)


@pytest.mark.parametrize("max_rows", range(11))
def test_max_rows_may_end_inside_a_batch_and_the_next_read_continues(kernel, max_rows):
    first = decode(LOG, from_offset=0, max_rows=max_rows, kernel=kernel)
    assert offsets(first) == list(range(min(9, max_rows)))
    rest = decode(LOG[first.bytes_consumed :], from_offset=first.next_offset, kernel=kernel)
    assert offsets(first) + offsets(rest) == list(range(9))


@pytest.mark.parametrize("codec", CompressionType)
def test_max_bytes_reads_at_least_one_batch_and_the_next_read_continues(kernel, codec):
    log = a_log(*(a_batch(2, base_offset=2 * n, compression=codec) for n in range(4)))
    found, offset, position = [], 0, 0
    rounds = 0
    while position < len(log):
        decoded = decode(log[position:], from_offset=offset, max_bytes=1, kernel=kernel)
        found += offsets(decoded)
        offset, position, rounds = decoded.next_offset, position + decoded.bytes_consumed, rounds + 1
    assert (found, rounds) == (list(range(8)), 4)


def test_a_gap_before_the_end_of_the_range_is_skipped(kernel):
    log = a_log(a_batch(2), a_batch(2, base_offset=10))
    decoded = decode(log, from_offset=0, until_offset=8, kernel=kernel)
    assert (offsets(decoded), decoded.next_offset) == ([0, 1], 8)


def test_compacted_batches_may_have_gaps_and_end_after_their_last_record(kernel):
    batch = build_batch([Record(offset=2), Record(offset=5)], last_offset_delta=9)
    decoded = decode(batch, from_offset=0, kernel=kernel)
    assert (offsets(decoded), decoded.next_offset) == ([2, 5], 10)


def test_empty_batches_of_compaction_only_advance_the_offset(kernel):
    for codec in CompressionType:
        empty = build_empty_batch(read_header(a_batch(3, compression=codec)))
        log = a_log(empty, a_batch(1, base_offset=3))
        assert offsets(decode(log, from_offset=0, kernel=kernel)) == [3]
        assert decode(empty, from_offset=0, kernel=kernel).next_offset == 3


def test_an_empty_batch_with_a_codec_is_empty(kernel):
    batch = a_batch_of_content(b"", record_count=0, last_offset_delta=4, attributes=CompressionType.ZSTD)
    assert decode(batch, from_offset=0, kernel=kernel).next_offset == 5


def test_log_append_time_is_the_batches_max_timestamp(kernel):
    batch = a_batch(2, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=7)
    rows = rows_of(
        decode(batch, from_offset=0, columns=frozenset({"timestamp", "timestampType"}), kernel=kernel).record_batch
    )
    assert rows == [(7000, 1), (7000, 1)]


def test_a_delete_horizon_does_not_shift_the_timestamps(kernel):
    batch = build_batch(some_records(2), delete_horizon_ms=SOME_TIME_MS * 2)
    rows = rows_of(decode(batch, from_offset=0, columns=frozenset({"timestamp"}), kernel=kernel).record_batch)
    assert rows == [(SOME_TIME_MS * 1000,), (SOME_TIME_MS * 1000 + 1000,)]


LAST_GOOD_MS = (2**63 - 1) // 1000


@pytest.mark.parametrize("timestamp_ms", [LAST_GOOD_MS, -LAST_GOOD_MS, -1, 0])
def test_timestamps_that_fit_microseconds_are_decoded(kernel, timestamp_ms):
    decoded = decode(a_batch([a_record(timestamp_ms=timestamp_ms)]), from_offset=0, kernel=kernel)
    assert decoded.record_batch.column("timestamp").cast(pa.int64()).to_pylist() == [timestamp_ms * 1000]


@pytest.mark.parametrize("timestamp_ms", [LAST_GOOD_MS + 1, -LAST_GOOD_MS - 1, 2**63 - 1, -(2**63)])
def test_timestamps_that_do_not_fit_microseconds_are_refused_if_requested(kernel, timestamp_ms):
    log = a_log(a_batch(2), a_batch([a_record(timestamp_ms=timestamp_ms)], base_offset=2))
    with pytest.raises(UnsupportedFormatError, match=f"{timestamp_ms} ms at offset 2") as caught:
        decode(log, from_offset=0, kernel=kernel)
    assert caught.value.position == len(a_batch(2))
    assert offsets(decode(log, from_offset=0, columns=frozenset({"offset"}), kernel=kernel)) == [0, 1, 2]


TRANSACTIONS = a_log(
    a_transactional_batch(2, producer_id=1),
    a_transactional_batch(1, producer_id=2, base_offset=2, compression=CompressionType.ZSTD),
    a_batch(1, base_offset=3, producer=(2, 0, 0)),
    an_abort_marker(producer_id=2, base_offset=4),
    a_transactional_batch(1, producer_id=2, base_offset=5),
    a_commit_marker(producer_id=1, base_offset=6),
    a_commit_marker(producer_id=2, base_offset=7),
    a_batch(1, base_offset=8),
)
ABORTED = [AbortedTransaction(producer_id=2, first_offset=2)]


def test_control_batches_give_no_rows(kernel):
    decoded = decode(TRANSACTIONS, from_offset=0, kernel=kernel)
    assert (offsets(decoded), decoded.next_offset) == ([0, 1, 2, 3, 5, 8], 9)


def test_aborted_records_are_hidden_up_to_the_marker_and_only_transactional_ones(kernel):
    decoded = decode(TRANSACTIONS, from_offset=0, aborted=ABORTED, kernel=kernel)
    assert offsets(decoded) == [0, 1, 3, 5, 8]


@pytest.mark.parametrize("max_rows", [1, 2, 3])
@pytest.mark.parametrize("names_again", [False, True])
def test_one_filter_serves_successive_buffers(kernel, max_rows, names_again):
    hider = AbortedFilter(ABORTED)
    found, offset, position = [], 0, 0
    while position < len(TRANSACTIONS):
        if names_again:
            hider.add(ABORTED)
        decoded = decode(TRANSACTIONS[position:], from_offset=offset, max_rows=max_rows, aborted=hider, kernel=kernel)
        found += offsets(decoded)
        assert decoded.bytes_consumed or decoded.next_offset > offset
        offset, position = decoded.next_offset, position + decoded.bytes_consumed
    assert found == [0, 1, 3, 5, 8]


def test_a_buffer_of_aborted_records_only_advances_the_offset(kernel):
    log = a_log(*(a_transactional_batch(10, producer_id=2, base_offset=10 * n) for n in range(20)))
    decoded = decode(log, from_offset=0, aborted=[AbortedTransaction(producer_id=2, first_offset=0)], kernel=kernel)
    assert (decoded.record_batch.num_rows, decoded.next_offset, decoded.bytes_consumed) == (0, 200, len(log))


def test_header_keys_are_valid_utf8_in_arrow(kernel):
    content = b"\x14\x00\x00\x00\x01\x01\x02\x02\xff\x02x"
    decoded = decode(a_batch_of_content(content), from_offset=0, columns=frozenset({"headers"}), kernel=kernel)
    decoded.record_batch.validate(full=True)
    assert decoded.record_batch.to_pydict() == {"headers": [[{"key": "\ufffd", "value": b"x"}]]}
    wide = a_batch([a_record(headers=(("ключ", b""),))])
    decoded = decode(wide, from_offset=0, columns=frozenset({"headers"}), kernel=kernel)
    assert decoded.record_batch.to_pydict() == {"headers": [[{"key": "ключ", "value": b""}]]}


def test_corruption_after_good_batches_is_raised_with_its_file_position(kernel):
    log = bytearray(LOG)
    log[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="position") as caught:
        decode(log, from_offset=0, file="/d/7.log", file_position=1000, kernel=kernel)
    assert caught.value.position == 1000 + len(LOG) - len(a_batch(2))
    assert caught.value.offset == 7


def test_corruption_outside_the_requested_range_is_ignored(kernel):
    log = bytearray(LOG)
    log[-1] ^= 1
    log[80] ^= 1
    assert offsets(decode(log, from_offset=3, until_offset=7, kernel=kernel)) == [3, 4, 5, 6]
    assert offsets(decode(log, from_offset=3, max_rows=2, kernel=kernel)) == [3, 4]


def test_a_batch_that_repeats_offsets_is_corrupt(kernel):
    with pytest.raises(CorruptBatchError, match="is not above"):
        decode(a_log(a_batch(3), a_batch(3, base_offset=2)), from_offset=0, kernel=kernel)


def test_a_log_of_many_small_batches_decodes(kernel):
    log = a_log(*(a_batch(1, base_offset=n) for n in range(500)))
    assert offsets(decode(log, from_offset=0, kernel=kernel)) == list(range(500))


maybe_bytes = st.none() | st.binary(max_size=40)
record = st.builds(
    Record,
    key=maybe_bytes,
    value=maybe_bytes,
    timestamp_ms=st.integers(-(10**12), 10**13),
    headers=st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3).map(tuple),
)


@given(st.lists(st.tuples(st.lists(record, min_size=1, max_size=8), st.sampled_from(CompressionType)), max_size=5))
def test_any_records_round_trip(batches):
    log, expected = b"", []
    for records, codec in batches:
        log += build_batch(records, base_offset=len(expected), compression=codec)
        expected += records
    decoded = decode(log, from_offset=0, columns=ALL_COLUMNS)
    decoded.record_batch.validate(full=True)
    assert rows_of(decoded.record_batch) == [
        (r.key, r.value, n, r.timestamp_ms * 1000, 0, [{"key": k, "value": v} for k, v in r.headers] or None)
        for n, r in enumerate(expected)
    ]
