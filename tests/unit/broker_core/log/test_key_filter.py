import struct

import crc32c
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.log import key_filter
from broker_core.log.key_filter import (
    KEY_FILTER_HEADER_BYTES,
    ClosedSegment,
    KeyFilterBuilder,
    KeyFilterHeader,
    block_denies,
    block_position,
    decode_key_filter_header,
    is_block_whole,
)
from broker_core.model.limits import MAX_KEY_FILTER_BYTES
from broker_core.record.key_places import BLOCK_BYTES


def a_segment(offset_count=100, *, base_offset=1000):
    return ClosedSegment(base_offset=base_offset, next_offset=base_offset + offset_count, size_bytes=12_345)


def a_filter(keys, *, offset_count=None, chunk=1000):
    builder = KeyFilterBuilder(a_segment(len(keys) if offset_count is None else offset_count))
    for start in range(0, len(keys), chunk):
        builder.add(pa.array(keys[start : start + chunk], pa.binary()))
    return builder.finish()


def denies(content, key):
    count = decode_key_filter_header(content).block_count
    if not count:
        return True
    position = block_position(key, count)
    return block_denies(content[position : position + BLOCK_BYTES], key, count)


maybe_keys = st.lists(st.none() | st.binary(max_size=12), max_size=60)


@given(maybe_keys, st.integers(0, 100_000))
def test_an_added_key_is_never_missed(keys, spare):
    content = a_filter(keys, offset_count=len(keys) + spare, chunk=7)
    header = decode_key_filter_header(content)
    assert header.null_key_count == keys.count(None)
    assert header.file_bytes == len(content)
    assert not any(denies(content, key) for key in keys if key is not None)


def test_the_false_positive_rate_is_about_one_percent():
    content = a_filter([b"key-%d" % n for n in range(40_000)])
    wrong = sum(not denies(content, b"other-%d" % n) for n in range(20_000))
    assert wrong / 20_000 < 0.015
    assert len(content) < 40_000 * 10 / 8 * 2.1, "twice what ten bits a key take, since sizes are powers of two"


def test_a_filter_is_folded_to_the_number_of_distinct_keys():
    assert len(a_filter([b"key-%d" % (n % 1000) for n in range(50_000)])) == KEY_FILTER_HEADER_BYTES + BLOCK_BYTES
    assert len(a_filter([b"key-%d" % n for n in range(6_000)], offset_count=10**9)) == 64 + 2 * BLOCK_BYTES


def test_a_filter_of_records_without_keys_is_only_a_header():
    content = a_filter([None] * 500)
    assert len(content) == KEY_FILTER_HEADER_BYTES
    assert decode_key_filter_header(content).null_key_count == 500
    assert denies(content, b"")
    assert len(a_filter([])) == KEY_FILTER_HEADER_BYTES


def test_the_layout_is_as_documented():
    content = a_filter([b"a", None])
    fields = struct.unpack(">4shhqqqqiiqiI", content[:64])
    assert fields == (b"SLKF", 1, 0, 1000, 1002, 12_345, 1, 0, 0, 0, 1, crc32c.crc32c(content[:60]))
    assert int.from_bytes(content[-4:], "big") == crc32c.crc32c(content[64:-4])


@pytest.mark.parametrize("offset_count", [1, 2**62])
def test_a_filter_is_never_larger_than_its_limit(offset_count, monkeypatch):
    monkeypatch.setattr(key_filter, "_folded", lambda blocks: blocks)
    content = a_filter([b"a"], offset_count=offset_count)
    assert len(content) - 64 == (BLOCK_BYTES if offset_count == 1 else MAX_KEY_FILTER_BYTES)


def test_a_filter_at_its_limit_has_more_false_positives_but_misses_no_key(monkeypatch):
    monkeypatch.setattr(key_filter, "_MAX_BLOCK_COUNT", 1)
    keys = [b"key-%d" % n for n in range(20_000)]
    content = a_filter(keys)
    assert len(content) == 64 + BLOCK_BYTES
    assert not any(denies(content, key) for key in keys)


@given(st.integers(0, 64 * 8 - 1))
def test_a_header_with_any_flipped_bit_is_invalid(bit):
    header = KeyFilterHeader(segment=a_segment(), null_key_count=3, block_count=8).encode()
    damaged = bytearray(header)
    damaged[bit >> 3] ^= 1 << (bit & 7)
    assert decode_key_filter_header(header) is not None
    assert decode_key_filter_header(bytes(damaged)) is None


@pytest.mark.parametrize("block_count", [-1, 3, MAX_KEY_FILTER_BYTES // BLOCK_BYTES * 2])
def test_a_header_with_an_impossible_block_count_is_invalid(block_count):
    assert decode_key_filter_header(KeyFilterHeader(segment=a_segment(), null_key_count=0, block_count=1).encode())
    header = KeyFilterHeader(segment=a_segment(), null_key_count=0, block_count=block_count).encode()
    assert decode_key_filter_header(header) is None


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 59, 63])
def test_a_truncated_header_is_invalid(cut):
    assert decode_key_filter_header(a_filter([b"a"])[:cut]) is None


def test_a_header_of_a_later_version_is_invalid():
    header = bytearray(a_filter([b"a"])[:60])
    header[4:6] = b"\0\2"
    assert decode_key_filter_header(bytes(header) + crc32c.crc32c(bytes(header)).to_bytes(4, "big")) is None


@given(st.integers(0, BLOCK_BYTES * 8 - 1))
def test_a_block_with_any_flipped_bit_excludes_no_key(bit):
    block = bytearray(a_filter([b"a"])[64:])
    assert is_block_whole(bytes(block))
    assert block_denies(bytes(block), b"b", 1)
    block[bit >> 3] ^= 1 << (bit & 7)
    assert not is_block_whole(bytes(block))
    assert not block_denies(bytes(block), b"b", 1)
    assert not block_denies(bytes(block[:-1]), b"b", 1)


def test_keys_are_looked_up_in_a_stored_filter():
    stored = a_filter([b"a", b"b", None])

    def is_denied(keys, stored=stored):
        builder = KeyFilterBuilder(a_segment(), block_count=decode_key_filter_header(stored).block_count)
        builder.add(pa.array(keys, pa.binary()))
        return builder.is_denied_by(stored)

    assert not is_denied([b"b", None])
    assert is_denied([b"b", b"c"])
    assert is_denied([None], a_filter([b"a"]))
    assert is_denied([b"a"], a_filter([None]))
    assert not is_denied([], a_filter([]))
