"""Variable-length integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.record.faults import KernelFault
from broker_core.record.varint import append_varint, read_varint, read_varlong, varint_bytes


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_varlong_reads_back_and_its_size_is_known(number):
    target = bytearray()
    append_varint(target, number)
    assert len(target) == varint_bytes(number) <= 10
    assert read_varlong(memoryview(target), 0, len(target)) == (number, len(target))


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_varint_reads_back(number):
    target = bytearray()
    append_varint(target, number)
    assert read_varint(memoryview(target), 0, len(target)) == (number, len(target))


@pytest.mark.parametrize(
    "raw", [b"", b"\x80", b"\xff\xff\xff\xff\xff\x01", b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00"]
)
def test_a_varint_without_end_or_beyond_32_bits_is_refused(raw):
    with pytest.raises(KernelFault):
        read_varint(memoryview(raw), 0, len(raw))


@pytest.mark.parametrize("raw", [b"\xff" * 9, b"\xff" * 10 + b"\x01", b"\xff" * 9 + b"\x02"])
def test_a_varlong_without_end_or_beyond_64_bits_is_refused(raw):
    with pytest.raises(KernelFault):
        read_varlong(memoryview(raw), 0, len(raw))


def test_a_longer_encoding_than_needed_is_read():
    assert read_varint(memoryview(b"\x82\x00"), 0, 2) == (1, 2)
