"""Confluent's wire format; the bytes of message indexes are those of its documentation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_streamlog.serde.confluent_wire import (
    MAX_INDEX_COUNT,
    header,
    message_indexes,
    read_message_indexes,
    schema_id_of,
)
from spark_streamlog.serde.decoded_values import Unreadable


def test_the_header_is_a_zero_byte_and_the_id():
    assert header(1) == b"\0\0\0\0\1"
    assert schema_id_of(header(2**31 - 1) + b"x") == 2**31 - 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "too short for a schema id: 0 bytes"),
        (b"\0\0\0\0", "too short for a schema id: 4 bytes"),
        (b"\1\0\0\0\1", "the first byte is 1, not the magic byte 0"),
        (b"\0\x80\0\0\0", "2147483648 is not a valid schema id"),
    ],
)
def test_an_invalid_header_is_refused_with_a_reason(value, reason):
    with pytest.raises(Unreadable, match=reason):
        schema_id_of(value)


def test_the_first_message_of_a_file_is_one_byte_and_others_have_a_count():
    assert message_indexes((0,)) == b"\0"
    assert message_indexes((1,)) == b"\2\2"
    assert message_indexes((1, 0)) == b"\4\2\0"
    assert read_message_indexes(b"\0rest", 0) == ((0,), 1)
    # The long form of the same is allowed too.
    assert read_message_indexes(b"\2\0rest", 0) == ((0,), 2)


@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=5), st.binary(max_size=3))
def test_message_indexes_round_trip(indexes, rest):
    content = message_indexes(indexes)
    assert read_message_indexes(b"x" + content + rest, 1) == (tuple(indexes), 1 + len(content))


@pytest.mark.parametrize("content", [b"", b"\2", b"\4\2", b"\x80", b"\xff" * 20, b"\1", b"\x80\x80\x80\x80\x80\1"])
def test_broken_message_indexes_are_corrupt(content):
    with pytest.raises(Unreadable):
        read_message_indexes(content, 0)


def test_the_count_of_message_indexes_is_bounded():
    assert len(read_message_indexes(message_indexes([0] * MAX_INDEX_COUNT), 0)[0]) == MAX_INDEX_COUNT
    with pytest.raises(Unreadable, match="101 message indexes"):
        read_message_indexes(message_indexes([0] * (MAX_INDEX_COUNT + 1)), 0)
