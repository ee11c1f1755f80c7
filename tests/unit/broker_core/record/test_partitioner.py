"""Kafka's murmur2 and the sticky partitioner."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.record import pure_kernel
from broker_core.record.partitioner import murmur2, partition_for_key

# From Kafka's UtilsTest.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "digest"), KNOWN.items())
def test_murmur2_matches_kafka(key, digest):
    assert murmur2(key) == digest
    assert pure_kernel.murmur2(key) == digest


@given(st.binary(max_size=40))
def test_both_kernels_compute_the_same_hash(key):
    assert murmur2(key) == pure_kernel.murmur2(key)


@given(st.binary(max_size=40), st.integers(1, 10_000))
def test_the_partition_of_a_key_exists(key, partition_count):
    assert 0 <= partition_for_key(key, partition_count) < partition_count


def test_the_hash_drops_the_sign_bit_instead_of_negating():
    assert partition_for_key(b"21", 1000) == (-973932308 & 0x7FFFFFFF) % 1000
