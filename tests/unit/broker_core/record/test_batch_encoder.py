"""Arrow rows to record batches."""

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.builders import SOME_TIME_MS, a_batch, an_arrow_batch, rows_of

from broker_core.model.exceptions import InvalidRecordError, InvalidRequestError
from broker_core.model.identifiers import CompressionType
from broker_core.model.limits import MAX_RECORD_HEADER_COUNT, MAX_SEQUENCE
from broker_core.record import active_kernel
from broker_core.record.batch_decoder import decode
from broker_core.record.batch_encoder import Producer, encode
from broker_core.record.batch_header import read_header
from broker_core.record.batch_reader import check_crc, iter_headers, records_of
from broker_core.record.column_buffers import ALL_COLUMNS

KERNELS = [k for k in (active_kernel.NATIVE_KERNEL, active_kernel.PURE_KERNEL) if k is not None]


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.KERNEL_NAME)
def kernel(request):
    return request.param


def records(encoded):
    return [r for position, _ in iter_headers(encoded.buffer) for r in records_of(encoded.buffer, position)]


def values(encoded):
    return [record.value for record in records(encoded)]


def test_the_encoder_writes_the_same_bytes_as_the_builder(kernel):
    encoded = encode(an_arrow_batch(3), default_timestamp_ms=0, kernel=kernel)
    assert encoded.buffer == a_batch(3)
    assert (encoded.record_count, encoded.batch_count, encoded.next_sequence) == (3, 1, -1)


def test_missing_columns_are_null_and_a_missing_timestamp_is_the_default(kernel):
    encoded = encode(pa.record_batch({"other": pa.array([1, 2])}), default_timestamp_ms=77, kernel=kernel)
    assert [(r.key, r.value, r.timestamp_ms, r.headers) for r in records(encoded)] == [(None, None, 77, ())] * 2


def test_zero_rows_encode_to_no_batches(kernel):
    for codec in CompressionType:
        encoded = encode(an_arrow_batch(0), default_timestamp_ms=0, compression=codec, kernel=kernel)
        assert (encoded.buffer, encoded.record_count, encoded.batch_count) == (b"", 0, 0)


def test_batches_are_contiguous_and_stay_within_the_limit(kernel):
    encoded = encode(an_arrow_batch(100), default_timestamp_ms=0, max_batch_bytes=300, kernel=kernel)
    headers = [header for _, header in iter_headers(encoded.buffer)]
    assert encoded.batch_count == len(headers) > 1
    assert all(header.size_bytes <= 300 for header in headers)
    assert [h.base_offset for h in headers] == [0, *(h.next_offset for h in headers)][:-1]
    assert [r.offset for r in records(encoded)] == list(range(100))


def test_a_batch_of_exactly_the_limit_fits(kernel):
    size = len(a_batch(3))
    assert encode(an_arrow_batch(3), default_timestamp_ms=0, max_batch_bytes=size, kernel=kernel).batch_count == 1
    assert encode(an_arrow_batch(3), default_timestamp_ms=0, max_batch_bytes=size - 1, kernel=kernel).batch_count == 2


def test_a_record_above_the_limit_gets_its_own_batch(kernel):
    big = pa.array([b"a", b"b" * 1000, b"c"], pa.binary())
    encoded = encode(pa.record_batch({"value": big}), default_timestamp_ms=0, max_batch_bytes=200, kernel=kernel)
    assert [header.record_count for _, header in iter_headers(encoded.buffer)] == [1, 1, 1]


def test_rows_are_encoded_in_the_requested_order(kernel):
    picked = pa.array([99, 4, 0, 4], pa.int32()).slice(1)
    encoded = encode(an_arrow_batch(5), rows=picked, default_timestamp_ms=0, kernel=kernel)
    assert values(encoded) == [b"value-4", b"value-0", b"value-4"]


@pytest.mark.parametrize("row", [-1, 3, 2**31 - 1])
def test_a_row_index_out_of_range_is_refused(kernel, row):
    with pytest.raises(InvalidRequestError, match=f"row index {row}"):
        encode(an_arrow_batch(3), rows=pa.array([row], pa.int32()), default_timestamp_ms=0, kernel=kernel)


TYPES = [pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.binary_view(), pa.string_view(),
         pa.dictionary(pa.int32(), pa.binary())]  # fmt: skip


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_every_binary_and_string_layout_is_accepted_sliced_or_not(kernel, kind):
    texts = ["zero", None, "", "three", "four" * 10]
    array = pa.array([None if t is None else t.encode() for t in texts], pa.binary())
    if pa.types.is_dictionary(kind):
        array = array.dictionary_encode()
    elif not (pa.types.is_string_view(kind) or kind == pa.string() or kind == pa.large_string()):
        array = array.cast(kind)
    else:
        array = pa.array(texts, kind)
    for start in range(5):
        batch = pa.record_batch({"key": array, "value": array}).slice(start, 3)
        found = records(encode(batch, default_timestamp_ms=0, kernel=kernel))
        expected = [None if t is None else t.encode() for t in texts[start : start + 3]]
        assert [r.key for r in found] == [r.value for r in found] == expected


def test_fixed_size_binary_and_null_columns_are_accepted(kernel):
    batch = pa.record_batch(
        {"key": pa.nulls(2), "value": pa.array([b"ab", b"cd"], pa.binary(2)), "headers": pa.nulls(2)}
    )
    assert values(encode(batch, default_timestamp_ms=0, kernel=kernel)) == [b"ab", b"cd"]


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.list_(pa.binary())])
def test_other_types_are_refused_by_name(kind):
    with pytest.raises(InvalidRequestError, match="'value' must be binary or string"):
        encode(pa.record_batch({"value": pa.array([None], kind)}), default_timestamp_ms=0)
    with pytest.raises(InvalidRequestError, match="'headers' must be"):
        encode(pa.record_batch({"headers": pa.array([None], pa.int64())}), default_timestamp_ms=0)
    with pytest.raises(InvalidRequestError, match="'timestamp' must be"):
        encode(pa.record_batch({"timestamp": pa.array([None], pa.string())}), default_timestamp_ms=0)


def test_a_duplicate_column_is_refused():
    twice = pa.RecordBatch.from_arrays([pa.array([b"a"]), pa.array([b"b"])], names=["value", "value"])
    with pytest.raises(InvalidRequestError, match="2 times"):
        encode(twice, default_timestamp_ms=0)


@pytest.mark.parametrize(("unit", "factor"), [("s", 0.001), ("ms", 1), ("us", 1000), ("ns", 1_000_000)])
def test_timestamps_of_any_unit_are_rounded_down_to_milliseconds(kernel, unit, factor):
    numbers = [5000, None, -5000] if factor <= 1 else [5 * factor + factor - 1, None, -5 * factor - 1]
    stamps = pa.array([n if n is None else int(n) for n in numbers], pa.int64()).cast(pa.timestamp(unit, "UTC"))
    found = records(encode(pa.record_batch({"timestamp": stamps}), default_timestamp_ms=9, kernel=kernel))
    expected = {"s": [5000000, 9, -5000000], "ms": [5000, 9, -5000]}.get(unit, [5, 9, -6])
    assert [r.timestamp_ms for r in found] == expected


def test_sliced_timestamps_keep_their_nulls(kernel):
    stamps = pa.array([1, None, 3, None, 5], pa.int64())
    encoded = encode(pa.record_batch({"timestamp": stamps}).slice(1, 3), default_timestamp_ms=0, kernel=kernel)
    assert [r.timestamp_ms for r in records(encoded)] == [0, 3, 0]


def test_seconds_that_overflow_milliseconds_are_refused():
    stamps = pa.array([2**62], pa.int64()).cast(pa.timestamp("s"))
    with pytest.raises(InvalidRequestError, match="does not fit milliseconds"):
        encode(pa.record_batch({"timestamp": stamps}), default_timestamp_ms=0)


def test_timestamps_too_far_apart_for_one_batch_are_refused(kernel):
    stamps = pa.array([-(2**63), 2**63 - 1], pa.int64())
    with pytest.raises(InvalidRecordError, match="too far"):
        encode(pa.record_batch({"timestamp": stamps}), default_timestamp_ms=0, kernel=kernel)


def test_base_timestamp_is_the_first_and_max_timestamp_the_largest(kernel):
    stamps = pa.array([5, 9, 2], pa.int64())
    header = read_header(encode(pa.record_batch({"timestamp": stamps}), default_timestamp_ms=0, kernel=kernel).buffer)
    assert (header.base_timestamp, header.max_timestamp) == (5, 9)


HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def test_headers_keep_order_duplicates_nulls_and_empty_values(kernel):
    rows = [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}, {"key": "", "value": b""}], None, []]
    batch = pa.record_batch({"headers": pa.array([None, *rows], HEADERS)}).slice(1)
    found = [r.headers for r in records(encode(batch, default_timestamp_ms=0, kernel=kernel))]
    assert found == [(("h", b"1"), ("h", None), ("", b"")), (), ()]


def test_headers_of_other_widths_are_cast(kernel):
    kind = pa.large_list(pa.struct([pa.field("key", pa.large_string()), pa.field("value", pa.large_binary())]))
    batch = pa.record_batch({"headers": pa.array([[{"key": "a", "value": b"b"}]], kind)})
    assert records(encode(batch, default_timestamp_ms=0, kernel=kernel))[0].headers == (("a", b"b"),)


@pytest.mark.parametrize(("header", "message"), [
    ({"key": None, "value": b"1"}, "a header key of row 1 is null; Kafka allows null header values only"),
    (None, "a header of row 1 is null; leave it out, or give it a key"),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["record batch", "struct array"])
def test_null_headers_and_null_header_keys_are_refused_with_different_errors(kernel, header, message, kind):
    batch = pa.record_batch({"headers": pa.array([[], [{"key": "h", "value": b""}, header]], HEADERS)})
    columns = batch if kind == "record batch" else batch.to_struct_array()
    with pytest.raises(InvalidRecordError) as caught:
        encode(columns, default_timestamp_ms=0, kernel=kernel)
    assert caught.value.message == message


def test_headers_up_to_the_limit_are_written_and_one_more_is_refused():
    pairs = pa.StructArray.from_arrays(
        [pa.array([""] * (MAX_RECORD_HEADER_COUNT + 1)), pa.nulls(MAX_RECORD_HEADER_COUNT + 1, pa.binary())],
        ["key", "value"],
    )
    for count in (MAX_RECORD_HEADER_COUNT, MAX_RECORD_HEADER_COUNT + 1):
        batch = pa.record_batch({"headers": pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), pairs)})
        if count == MAX_RECORD_HEADER_COUNT:
            assert encode(batch, default_timestamp_ms=0).record_count == 1
        else:
            with pytest.raises(InvalidRecordError, match="MAX_RECORD_HEADER_COUNT"):
                encode(batch, default_timestamp_ms=0)


def test_sequences_continue_across_batches_and_wrap(kernel):
    producer = Producer(producer_id=5, producer_epoch=2, base_sequence=MAX_SEQUENCE - 1)
    encoded = encode(
        an_arrow_batch(4), default_timestamp_ms=0, max_batch_bytes=1, producer=producer, is_transactional=True,
        kernel=kernel,
    )  # fmt: skip
    headers = [header for _, header in iter_headers(encoded.buffer)]
    assert [h.base_sequence for h in headers] == [MAX_SEQUENCE - 1, MAX_SEQUENCE, 0, 1]
    assert encoded.next_sequence == 2
    assert all((h.producer_id, h.producer_epoch, h.is_transactional) == (5, 2, True) for h in headers)


@pytest.mark.parametrize("codec", CompressionType)
def test_compressed_batches_are_complete_and_have_valid_checksums(kernel, codec):
    encoded = encode(
        an_arrow_batch(100), default_timestamp_ms=0, compression=codec, max_batch_bytes=1000, kernel=kernel
    )
    headers = list(iter_headers(encoded.buffer))
    assert len(headers) == encoded.batch_count > 1
    for position, header in headers:
        assert header.compression_type is codec
        check_crc(encoded.buffer, position, header)
    assert values(encoded) == [b"value-%d" % n for n in range(100)]


@pytest.mark.parametrize("lanes", [0, 1, 2, 3, 6])
def test_checksums_are_correct_for_every_remainder_after_the_three_lanes(kernel, lanes):
    for size in range(max(0, 1024 * lanes - 70), 1024 * lanes + 10):
        row = pa.RecordBatch.from_pydict({"value": [bytes(number * 31 & 0xFF for number in range(size))]})
        encoded = encode(row, default_timestamp_ms=0, kernel=kernel)
        ((position, header),) = iter_headers(encoded.buffer)
        check_crc(encoded.buffer, position, header)


def test_a_struct_array_is_accepted_like_a_record_batch(kernel):
    batch = an_arrow_batch(3)
    struct = pa.StructArray.from_arrays(batch.columns, batch.schema.names)
    assert encode(struct, default_timestamp_ms=0, kernel=kernel).buffer == a_batch(3)


def test_the_buffer_can_be_placed_in_the_log():
    assert isinstance(encode(an_arrow_batch(1), default_timestamp_ms=0).buffer, bytearray)


maybe_bytes = st.none() | st.binary(max_size=50)


@given(
    st.lists(st.tuples(maybe_bytes, maybe_bytes, st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)))),
    st.sampled_from(CompressionType),
    st.integers(1, 500),
)
def test_any_rows_round_trip(rows, codec, max_batch_bytes):
    batch = pa.record_batch(
        {
            "key": pa.array([key for key, _, _ in rows], pa.binary()),
            "value": pa.array([value for _, value, _ in rows], pa.binary()),
            "timestamp": pa.array([at.replace(microsecond=0) for _, _, at in rows], pa.timestamp("us", "UTC")),
        }
    )
    encoded = encode(batch, default_timestamp_ms=0, compression=codec, max_batch_bytes=max_batch_bytes)
    decoded = decode(encoded.buffer, from_offset=0, columns=ALL_COLUMNS).record_batch
    assert rows_of(decoded.select(["key", "value", "timestamp"])) == rows_of(batch)
    assert decoded.column("offset").to_pylist() == list(range(len(rows)))


def test_builder_and_encoder_use_the_same_default_timestamp():
    header = read_header(encode(an_arrow_batch(2), default_timestamp_ms=0).buffer)
    assert (header.base_timestamp, header.max_timestamp) == (SOME_TIME_MS, SOME_TIME_MS + 1)
