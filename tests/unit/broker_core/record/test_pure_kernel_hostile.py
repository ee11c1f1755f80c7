"""Batches with a right CRC and wrong content: both kernels and the slow reader refuse them, and say what is wrong."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.builders import SOME_TIME_MS, a_batch, a_batch_of_content, a_log, with_header_field
from support.runs.examples import examples

from broker_core.model.exceptions import CorruptBatchError, CorruptDataError
from broker_core.model.identifiers import CompressionType
from broker_core.model.limits import MAX_RECORD_HEADER_COUNT
from broker_core.record import active_kernel, batch_decoder
from broker_core.record.batch_decoder import decode
from broker_core.record.batch_reader import Record, inspect_records, records_of
from broker_core.record.column_buffers import ALL_COLUMNS
from broker_core.record.compression import compress
from broker_core.record.varint import append_varint

KERNELS = [k for k in (active_kernel.NATIVE_KERNEL, active_kernel.PURE_KERNEL) if k is not None]


def varints(*parts):
    """Numbers as varints, bytes as they are."""
    out = bytearray()
    for part in parts:
        if isinstance(part, int):
            append_varint(out, part)
        else:
            out += part
    return bytes(out)


def a_record_of(*parts):
    body = b"\0" + varints(*parts)
    return varints(len(body)) + body


GOOD = a_record_of(0, 0, 1, b"k", 1, b"v", 0)
ENDLESS = b"\xff" * 11

HOSTILE = {
    "record length past the end": (varints(100) + bytes(20), 1, "claims 100 bytes"),
    "record length negative": (varints(-5) + bytes(20), 1, "claims -5 bytes"),
    "record length without end": (ENDLESS, 1, "does not end"),
    "record of no bytes": (varints(0) + bytes(9), 1, "does not end"),
    "record of attributes only": (varints(1) + bytes(9), 1, "does not end"),
    "timestamp without end": (a_record_of(ENDLESS, 0, -1, -1, 0), 1, "does not end"),
    "offset delta beyond 32 bits": (a_record_of(0, 2**40, -1, -1, 0), 1, "exceeds 32 bits"),
    "key past its record": (a_record_of(0, 0, 50, b"k", -1, 0), 1, "key claims 50"),
    "value past its record": (a_record_of(0, 0, -1, 2**31 - 1, b"v", 0), 1, "value claims"),
    "more headers than bytes": (a_record_of(0, 0, -1, -1, 2**31 - 1), 1, "headers"),
    "headers of negative count": (a_record_of(0, 0, -1, -1, -1), 1, "claims -1 headers"),
    "null header key": (a_record_of(0, 0, -1, -1, 1, -1, -1), 1, "header key claims -1"),
    "header key past its record": (a_record_of(0, 0, -1, -1, 1, 9, b"h", -1), 1, "header key claims 9"),
    "header value past its record": (a_record_of(0, 0, -1, -1, 1, 1, b"h", 7), 1, "header value claims 7"),
    "bytes after the last field": (a_record_of(0, 0, -1, -1, 0, b"xx"), 1, "2 bytes after"),
    "bytes after the last header": (a_record_of(0, 0, -1, -1, 1, 0, -1, b"x"), 1, "1 bytes after"),
    "bytes after the last record": (GOOD + b"\0", 1, "bytes follow"),
    "a record more than counted": (GOOD + a_record_of(0, 1, -1, -1, 0), 1, "bytes follow"),
    "a record fewer than counted": (GOOD, 2, "cannot hold|does not end|are left"),
    "a count that the bytes cannot hold": (GOOD, 2**31 - 1, "cannot hold"),
    "no records but content": (GOOD, 0, "bytes follow"),
    "records but no content": (b"", 1, "cannot hold"),
}


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.SNAPPY])
@pytest.mark.parametrize(("content", "count", "what"), HOSTILE.values(), ids=HOSTILE.keys())
def test_invalid_content_with_a_valid_crc_is_corrupt(content, count, what, codec):
    batch = a_batch_of_content(compress(codec, content), record_count=count, attributes=codec, base_offset=5)
    log = a_log(a_batch(5), batch)
    for kernel in KERNELS:
        with pytest.raises(CorruptBatchError, match=what) as caught:
            decode(log, from_offset=0, columns=frozenset({"offset"}), kernel=kernel)
        assert (caught.value.position, caught.value.offset) == (len(a_batch(5)), 5)
    for slow in (inspect_records, lambda data: list(records_of(data))):
        with pytest.raises(CorruptBatchError, match=what):
            slow(batch)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.KERNEL_NAME)
def test_any_negative_length_is_null_like_in_kafka(kernel):
    batch = a_batch_of_content(a_record_of(0, 0, -2, -(2**31), 1, 1, b"h", -7))
    row = decode(batch, from_offset=0, columns=ALL_COLUMNS, kernel=kernel).record_batch.to_pylist()[0]
    assert (row["key"], row["value"], row["headers"]) == (None, None, [{"key": "h", "value": None}])
    assert list(records_of(batch)) == [
        Record(offset=0, timestamp_ms=SOME_TIME_MS, key=None, value=None, headers=(("h", None),))
    ]
    assert inspect_records(batch).null_key_count == 1


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.KERNEL_NAME)
@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.LZ4])
@pytest.mark.parametrize("tail", [bytes(9), b"\x93noise"])
def test_bytes_after_compressed_content_lose_no_record_like_in_kafka(codec, tail, kernel):
    content = GOOD + a_record_of(0, 1, -1, 1, b"w", 0)
    batch = a_batch_of_content(compress(codec, content) + tail, record_count=2, attributes=codec)
    log = a_log(batch, a_batch(3, base_offset=2))
    decoded = decode(log, from_offset=0, columns=frozenset({"offset"}), kernel=kernel)
    assert decoded.record_batch.column("offset").to_pylist() == [0, 1, 2, 3, 4]
    assert [record.value for record in records_of(batch)] == [b"v", b"w"]


def test_headers_up_to_the_limit_are_read_and_one_more_is_refused():
    for extra, fits in ((0, True), (1, False)):
        count = MAX_RECORD_HEADER_COUNT + extra
        batch = a_batch_of_content(a_record_of(0, 0, -1, -1, count, b"\0\0" * count))
        if fits:
            decoded = decode(batch, from_offset=0, columns=frozenset({"headers"}))
            assert len(decoded.record_batch.column("headers")[0]) == count
        else:
            with pytest.raises(CorruptBatchError, match="headers"):
                decode(batch, from_offset=0)


@pytest.mark.parametrize("codec", [c for c in CompressionType if c is not CompressionType.NONE])
def test_a_decompression_bomb_is_refused_with_its_position(codec, monkeypatch):
    monkeypatch.setattr(batch_decoder, "MAX_DECOMPRESSED_BATCH_BYTES", 1_000_000)
    batch = a_batch_of_content(compress(codec, bytes(1_000_001)), attributes=codec, base_offset=3)
    with pytest.raises(CorruptBatchError, match="limit of 1000000 bytes") as caught:
        decode(batch, from_offset=0)
    assert caught.value.offset == 3
    with pytest.raises(CorruptBatchError, match="limit of 1000000 bytes"):
        inspect_records(batch, max_bytes=1_000_000)


@pytest.mark.parametrize(
    ("position", "layout", "value"),
    [(57, ">i", 2), (57, ">i", 4), (23, ">i", -1), (57, ">i", -3), (0, ">q", -1), (0, ">q", 2**63 - 1)],
)
def test_header_fields_that_contradict_the_records_are_corrupt(position, layout, value):
    batch = with_header_field(a_batch(3), position, layout, value)
    for kernel in KERNELS:
        with pytest.raises(CorruptBatchError):
            decode(batch, from_offset=0, kernel=kernel)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.KERNEL_NAME)
def test_a_flipped_bit_is_detected_or_makes_the_batch_incomplete(kernel):
    batch = a_batch(2)
    for bit in range(8 * len(batch)):
        position = bit // 8
        if position < 8 or 12 <= position < 16:
            continue  # base offset and leader epoch are outside the CRC
        broken = bytearray(batch)
        broken[position] ^= 1 << bit % 8
        try:
            decoded = decode(broken, from_offset=0, kernel=kernel)
        except CorruptDataError:
            continue
        assert (decoded.record_batch.num_rows, decoded.bytes_consumed) == (0, 0)
        assert struct.unpack_from(">i", broken, 8)[0] > struct.unpack_from(">i", batch, 8)[0]


@examples(200)
@given(st.binary(max_size=120), st.integers(0, 20), st.integers(0, 30), st.integers(0, 0x7F))
def test_any_content_decodes_or_is_corrupt(content, count, last_delta, attributes):
    batch = a_batch_of_content(content, record_count=count, last_offset_delta=last_delta, attributes=attributes)
    for kernel in KERNELS:
        with contextlib.suppress(CorruptDataError):
            decode(batch, from_offset=0, columns=ALL_COLUMNS, kernel=kernel).record_batch.validate(full=True)


@given(st.binary(max_size=300))
def test_any_bytes_decode_or_are_corrupt(data):
    for kernel in KERNELS:
        with contextlib.suppress(CorruptDataError):
            decode(data, from_offset=0, kernel=kernel)
