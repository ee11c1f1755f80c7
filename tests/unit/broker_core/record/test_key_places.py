import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.record.key_places import BLOCK_BITS, BLOCK_BYTES, PROBE_COUNT, key_place


@given(st.binary(max_size=50), st.integers(0, 12))
def test_a_key_sets_seven_bits_of_one_block_by_its_murmur3_digest(key, power):
    digest = mmh3.hash_bytes(key)
    first, second = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")
    block, bits = key_place(key, 1 << power)
    assert block == first % (1 << power)
    start, step = second % 2**32, second // 2**32 | 1
    assert bits == tuple((start + n * step) % 2**32 % BLOCK_BITS for n in range(PROBE_COUNT))


@given(st.binary(max_size=50), st.integers(1, 12))
def test_halving_the_block_count_keeps_the_bits_of_a_key_in_the_folded_block(key, power):
    block, bits = key_place(key, 1 << power)
    assert key_place(key, 1 << power - 1) == (block % (1 << power - 1), bits)


def test_no_key_bit_overlaps_the_checksum_of_a_block():
    assert BLOCK_BITS == (BLOCK_BYTES - 4) * 8
    assert max(max(key_place(b"%d" % n, 1)[1]) for n in range(5000)) < BLOCK_BITS


@pytest.mark.parametrize("kind", [bytes, memoryview, bytearray])
def test_a_key_may_be_any_bytes(kind):
    assert key_place(kind(b"abc"), 8) == key_place(b"abc", 8)
