import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_streamlog.serde.avro_varint import read_length, read_varint, varint
from spark_streamlog.serde.decoded_values import Unreadable

# From the Avro specification, "Binary Encoding".
BY_THE_SPECIFICATION = {0: "00", -1: "01", 1: "02", -2: "03", 2: "04", -64: "7f", 64: "8001"}


@pytest.mark.parametrize("number", BY_THE_SPECIFICATION)
def test_the_examples_of_the_specification_hold(number):
    content = bytes.fromhex(BY_THE_SPECIFICATION[number])
    assert varint(number) == content
    assert read_varint(content, 0) == (number, len(content))


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_number_round_trips(number):
    content = varint(number)
    assert len(content) <= 10
    assert read_varint(b"\xff" + content + b"\xff", 1) == (number, len(content) + 1)


def test_the_largest_number_has_ten_bytes_and_eleven_are_refused():
    assert read_varint(varint(2**63 - 1), 0) == (2**63 - 1, 10)
    with pytest.raises(Unreadable, match="more than 10 bytes"):
        read_varint(b"\x80" * 10 + b"\x00", 0)
    with pytest.raises(Unreadable, match="more than 64 bits"):
        read_varint(b"\xff" * 9 + b"\x02", 0)
    with pytest.raises(IndexError):
        read_varint(b"\x80", 0)


def test_a_length_must_not_exceed_the_bytes_left():
    assert read_length(varint(3) + b"abc", 0) == (3, 1)
    for number in (4, -1, 2**62, -(2**63)):
        with pytest.raises(Unreadable, match=r"the length is .*, and 3 bytes are left"):
            read_length(varint(number) + b"abc", 0)
