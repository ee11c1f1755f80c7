"""The four codecs: round trips, foreign framings, broken data and bombs."""

import contextlib
import gzip
import os
import zlib

import lz4.frame
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from broker_core.model.exceptions import CorruptBatchError, InvalidConfigError
from broker_core.model.identifiers import CompressionType
from broker_core.record.compression import compress, decompress

CODECS = [codec for codec in CompressionType if codec is not CompressionType.NONE]
TEXT = b"the quick brown fox jumps over the lazy dog. " * 3000
GZIP, SNAPPY, LZ4, ZSTD = CODECS


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, os.urandom(200_000)], ids=["empty", "one", "text", "noise"])
def test_compressed_content_inflates_to_the_same_bytes(codec, data):
    assert bytes(decompress(codec, compress(codec, data))) == data


@given(st.sampled_from(CompressionType), st.binary(max_size=3000))
def test_any_bytes_round_trip(codec, data):
    assert bytes(decompress(codec, memoryview(compress(codec, data)))) == data


@pytest.mark.parametrize("codec", CompressionType)
def test_content_of_exactly_the_limit_is_accepted(codec):
    data = bytes(1_000_000)
    content = compress(codec, data)
    assert len(decompress(codec, content, max_bytes=1_000_000)) == 1_000_000
    with pytest.raises(CorruptBatchError, match="limit of 999999 bytes"):
        decompress(codec, content, max_bytes=999_999)


@pytest.mark.parametrize("codec", CODECS)
def test_content_truncated_at_any_byte_is_corrupt(codec):
    content = compress(codec, TEXT[:500])
    for size in range(1, len(content)):
        if codec is SNAPPY and 16 <= size < 20:
            continue  # the framing's header without a whole block size behind it is an empty content
        with pytest.raises(CorruptBatchError):
            decompress(codec, content[:size])


PASSED_OVER = [
    (GZIP, bytes(7)), (GZIP, bytes(100)), (GZIP, b"\x93\x01noise that is no member\xff"),
    (GZIP, compress(GZIP, TEXT)[:18]),
    (GZIP, b"\x1f\x8b\x08" + b"\x08" + bytes(6) + b"a name without an end"),
    (GZIP, b"\x1f\x8b\x08" + b"\x02" + bytes(6) + b"a wrong checksum of the head"),
    (SNAPPY, b"\0"), (SNAPPY, b"\x55"), (SNAPPY, b"abc"),
    (LZ4, bytes(7)), (LZ4, b"\x93\x01noise\xff"), (LZ4, compress(LZ4, b"another frame")),
    (ZSTD, b"\x28"), (ZSTD, compress(ZSTD, TEXT)[:6]),
]  # fmt: skip
"""What a Kafka 4.3.1 takes behind a whole content, and its consumers pass over: see the scenario of the same."""


@pytest.mark.parametrize(("codec", "tail"), PASSED_OVER)
def test_trailing_bytes_are_ignored_where_kafka_ignores_them(codec, tail):
    assert bytes(decompress(codec, compress(codec, TEXT) + tail)) == TEXT


@pytest.mark.parametrize(("codec", "tail"), [
    (GZIP, compress(GZIP, TEXT)[:-3]), (GZIP, b"\x1f\x8b\x08" + bytes(7) + b"no deflate stream"),
    (SNAPPY, bytes(7)), (SNAPPY, b"noise"), (SNAPPY, compress(SNAPPY, b"")[:12]),
    (ZSTD, b"\0"), (ZSTD, bytes(7)), (ZSTD, b"noise"), (ZSTD, compress(ZSTD, TEXT)[:-3]),
])  # fmt: skip
def test_trailing_bytes_are_corrupt_where_kafka_cannot_read_them(codec, tail):
    with pytest.raises(CorruptBatchError):
        decompress(codec, compress(codec, TEXT) + tail)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, ZSTD])
def test_consecutive_frames_are_one_content(codec):
    assert (
        bytes(decompress(codec, compress(codec, TEXT) + compress(codec, b"") + compress(codec, b"end")))
        == TEXT + b"end"
    )


def test_a_gzip_member_with_all_optional_header_fields_is_read():
    head = b"\x1f\x8b\x08" + b"\x1e" + bytes(6) + b"\x02\x00xx" + b"name\0" + b"comment\0"
    head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little")
    assert decompress(GZIP, compress(GZIP, b"ab") + head + compress(GZIP, b"cd" * 50)[10:]) == b"ab" + b"cd" * 50


def test_many_gzip_members_use_memory_in_proportion_to_their_content():
    member = compress(GZIP, b"x" * 5000)
    assert decompress(GZIP, member * 2000) == b"x" * 10_000_000


@pytest.mark.parametrize("codec", CODECS)
def test_empty_content_is_corrupt(codec):
    with pytest.raises(CorruptBatchError):
        decompress(codec, b"")


@given(st.sampled_from(CODECS), st.binary(max_size=200))
def test_any_bytes_inflate_or_are_corrupt(codec, data):
    with contextlib.suppress(CorruptBatchError):
        decompress(codec, data, max_bytes=100_000)


@given(st.sampled_from(CODECS), st.integers(0, 10_000), st.integers(1, 255))
def test_a_flipped_byte_inflates_or_is_corrupt(codec, place, flip):
    content = bytearray(compress(codec, TEXT[:2000]))
    content[place % len(content)] ^= flip
    with contextlib.suppress(CorruptBatchError):
        decompress(codec, bytes(content), max_bytes=100_000)


def test_gzip_of_several_members_is_one_content():
    assert decompress(GZIP, gzip.compress(b"ab") + gzip.compress(b"cd")) == b"abcd"


def test_a_gzip_bomb_over_several_members_is_bounded_in_total():
    with pytest.raises(CorruptBatchError, match="limit"):
        decompress(GZIP, gzip.compress(bytes(600)) * 3, max_bytes=1500)


def test_snappy_is_framed_like_kafka_and_a_raw_block_is_read():
    content = compress(SNAPPY, TEXT)
    assert content[:8] == b"\x82SNAPPY\x00"
    assert content[8:16] == b"\x00\x00\x00\x01\x00\x00\x00\x01"
    raw = pa.Codec("snappy").compress(TEXT, asbytes=True)
    assert bytes(decompress(SNAPPY, raw)) == TEXT


def test_a_snappy_block_that_declares_too_much_is_refused_before_allocating():
    with pytest.raises(CorruptBatchError, match="claims to hold"):
        decompress(SNAPPY, b"\xff\xff\xff\x7f\x00", max_bytes=2**31)


def test_lz4_frames_have_independent_blocks():
    content = compress(LZ4, TEXT)
    assert content[4] & 0x20


def test_lz4_frames_with_linked_blocks_are_refused_like_kafka():
    linked = lz4.frame.compress(os.urandom(200_000), block_linked=True)
    with pytest.raises(CorruptBatchError, match="linked"):
        decompress(LZ4, linked)


@pytest.mark.parametrize("content_checksum", [False, True])
@pytest.mark.parametrize("block_checksum", [False, True])
@pytest.mark.parametrize("store_size", [False, True])
def test_lz4_sizes_and_checksums_are_accepted(content_checksum, block_checksum, store_size):
    frame = lz4.frame.compress(
        TEXT,
        block_linked=False,
        content_checksum=content_checksum,
        block_checksum=block_checksum,
        store_size=store_size,
    )
    assert bytes(decompress(LZ4, frame)) == TEXT


def test_a_wrong_lz4_content_checksum_is_corrupt():
    frame = bytearray(lz4.frame.compress(TEXT, block_linked=False, content_checksum=True))
    frame[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        decompress(LZ4, bytes(frame))


def test_an_lz4_frame_that_declares_too_much_is_refused_before_inflating():
    frame = lz4.frame.compress(bytes(10_000), block_linked=False, store_size=True)
    with pytest.raises(CorruptBatchError, match="limit of 9999"):
        decompress(LZ4, frame, max_bytes=9_999)


@pytest.mark.parametrize("with_size", [False, True])
@pytest.mark.parametrize("with_checksum", [False, True])
def test_zstd_frames_with_and_without_size_and_checksum_are_read(with_size, with_checksum):
    compressor = zstandard.ZstdCompressor(write_content_size=with_size, write_checksum=with_checksum)
    assert bytes(decompress(ZSTD, compressor.compress(TEXT))) == TEXT


def test_zstd_as_a_stream_and_of_several_frames_is_read():
    stream = zstandard.ZstdCompressor().compressobj()
    first = stream.compress(TEXT) + stream.flush()
    assert bytes(decompress(ZSTD, first + compress(ZSTD, b"end"))) == TEXT + b"end"


def test_a_wrong_zstd_checksum_is_corrupt():
    frame = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
    frame[-1] ^= 1
    with pytest.raises(CorruptBatchError):
        decompress(ZSTD, bytes(frame))


@pytest.mark.parametrize(("codec", "good", "bad"), [
    (GZIP, (-1, 1, 9), (0, 10)), (LZ4, (1, 9, 17), (0, 18)), (ZSTD, (-131072, 3, 22), (-131073, 23)),
])  # fmt: skip
def test_compression_levels_match_kafka(codec, good, bad):
    for level in good:
        assert bytes(decompress(codec, compress(codec, TEXT, level))) == TEXT
    for level in bad:
        with pytest.raises(InvalidConfigError, match=f"compression.{codec.name.lower()}.level"):
            compress(codec, TEXT, level)
