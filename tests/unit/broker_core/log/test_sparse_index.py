import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.log.sparse_index import (
    IndexCheck,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
    encode_offset_entry,
    encode_time_entry,
)

BASE = 3301
# The first entries of segments-0/00000000000000003301 as a Kafka 4.3.1 broker wrote them.
KAFKA_OFFSET_INDEX = bytes.fromhex("0000006300003db90000009500007b72000000c70000b92b000000f90000f6e4")
KAFKA_TIME_INDEX = bytes.fromhex("0000018bd0288b80000000630000018bd0294ed0000000950000018bd02a1220000000c7")


def an_offset_index(*pairs: tuple[int, int], base_offset: int = 0) -> bytes:
    return b"".join(
        encode_offset_entry(OffsetPosition(offset=offset, position=position), base_offset=base_offset)
        for offset, position in pairs
    )


def a_time_index(*pairs: tuple[int, int], base_offset: int = 0) -> bytes:
    return b"".join(
        encode_time_entry(TimestampOffset(timestamp_ms=timestamp, offset=offset), base_offset=base_offset)
        for timestamp, offset in pairs
    )


def test_an_index_that_kafka_wrote_is_read():
    index = OffsetIndex(KAFKA_OFFSET_INDEX, base_offset=BASE)
    assert index.entry_count == 4
    assert index.entry(0) == OffsetPosition(offset=BASE + 0x63, position=0x3DB9)
    times = TimeIndex(KAFKA_TIME_INDEX, base_offset=BASE)
    assert times.last_entry() == TimestampOffset(timestamp_ms=0x18BD02A1220, offset=BASE + 0xC7)


def test_entries_encode_to_kafkas_bytes():
    assert an_offset_index((BASE + 0x63, 0x3DB9), base_offset=BASE) == KAFKA_OFFSET_INDEX[:8]
    assert a_time_index((0x18BD0288B80, BASE + 0x63), base_offset=BASE) == KAFKA_TIME_INDEX[:12]


def test_an_offset_too_far_from_the_base_offset_fails_an_assertion():
    assert len(an_offset_index((2**31 - 1, 5))) == 8
    with pytest.raises(AssertionError):
        an_offset_index((2**31, 5))


def test_a_lookup_below_the_first_offset_entry_starts_at_the_beginning():
    assert OffsetIndex(KAFKA_OFFSET_INDEX, base_offset=BASE).floor(BASE + 5) == OffsetPosition(offset=BASE, position=0)
    assert OffsetIndex(b"", base_offset=BASE).floor(BASE + 5) == OffsetPosition(offset=BASE, position=0)


def test_a_lookup_below_the_first_time_entry_starts_at_the_beginning():
    assert TimeIndex(KAFKA_TIME_INDEX, base_offset=BASE).floor(5) == TimestampOffset(timestamp_ms=-1, offset=BASE)
    assert TimeIndex(b"", base_offset=BASE).last_entry() == TimestampOffset(timestamp_ms=-1, offset=BASE)


@given(st.lists(st.integers(0, 500), unique=True).map(sorted), st.integers(0, 600))
def test_floor_finds_the_last_entry_at_or_below_an_offset(offsets, asked):
    index = OffsetIndex(an_offset_index(*((offset, offset * 7 + 1) for offset in offsets)), base_offset=0)
    expected = max((offset for offset in offsets if offset <= asked), default=None)
    floor = index.floor(asked)
    assert floor == OffsetPosition(offset=expected or 0, position=0 if expected is None else expected * 7 + 1)
    assert index.slots_until(asked) == sum(offset < asked for offset in offsets)


@given(st.lists(st.integers(0, 500), unique=True).map(sorted), st.integers(0, 600))
def test_time_floor_finds_the_last_entry_at_or_below_a_timestamp(timestamps, asked):
    index = TimeIndex(a_time_index(*((timestamp, timestamp + 3) for timestamp in timestamps)), base_offset=0)
    expected = max((timestamp for timestamp in timestamps if timestamp <= asked), default=-1)
    assert index.floor(asked).timestamp_ms == expected
    assert index.slots_until(asked) == sum(timestamp + 3 < asked for timestamp in timestamps)


@given(st.lists(st.integers(1, 500), unique=True).map(sorted), st.integers(0, 600))
def test_floor_of_a_position_finds_the_last_entry_at_or_before_it_or_the_beginning(positions, asked):
    index = OffsetIndex(an_offset_index(*((position + 3, position) for position in positions)), base_offset=0)
    expected = max((position for position in positions if position <= asked), default=0)
    assert index.floor_of_position(asked).position == expected


def test_a_correct_index_is_valid_with_or_without_zero_padding():
    check = OffsetIndex.check(KAFKA_OFFSET_INDEX, base_offset=BASE, next_offset=BASE + 250, segment_size_bytes=0xF6E5)
    assert check == IndexCheck(entry_count=4)
    padded = KAFKA_OFFSET_INDEX + bytes(1024)
    assert OffsetIndex.check(padded, base_offset=BASE, next_offset=9999, segment_size_bytes=10**6).entry_count == 4
    assert TimeIndex.check(KAFKA_TIME_INDEX + bytes(1024), base_offset=BASE, next_offset=9999) == IndexCheck(
        entry_count=3
    )


def test_a_preallocated_index_without_entries_is_empty():
    assert OffsetIndex.check(bytes(4096), base_offset=0, next_offset=9, segment_size_bytes=9) == IndexCheck(
        entry_count=0
    )
    assert TimeIndex.check(bytes(4096), base_offset=0, next_offset=9) == IndexCheck(entry_count=0)


def test_a_time_entry_of_a_single_record_of_1970_is_valid():
    assert TimeIndex.check(bytes(12), base_offset=0, next_offset=1) == IndexCheck(entry_count=1)


@pytest.mark.parametrize(
    ("entries", "good_count", "problem"),
    [
        (an_offset_index((5, 50), (5, 60)), 1, "is not in ascending order"),
        (an_offset_index((5, 50), (6, 50)), 1, "is not in ascending order"),
        (an_offset_index((5, 50), (4, 60)), 1, "is not in ascending order"),
        (struct.pack(">ii", -3, 7), 0, "is not in ascending order"),
        (an_offset_index((5, 50), (100, 60)), 1, "points past the end"),
        (an_offset_index((5, 50), (6, 1000)), 1, "points past the end"),
        (an_offset_index((5, 50)) + b"\0\0\1", 1, "not a whole entry"),
        (an_offset_index((5, 50)) + bytes(8) + an_offset_index((7, 70)), 1, "others follow"),
    ],
)
def test_a_wrong_offset_index_is_detected(entries, good_count, problem):
    check = OffsetIndex.check(entries, base_offset=0, next_offset=100, segment_size_bytes=1000)
    assert check.entry_count == good_count
    assert problem in check.problem


@pytest.mark.parametrize(
    ("entries", "good_count", "problem"),
    [
        (a_time_index((5, 50), (5, 60)), 1, "is not in ascending order"),
        (a_time_index((5, 50), (6, 50)), 1, "is not in ascending order"),
        (a_time_index((5, 50), (6, 100)), 1, "points past the end"),
        (a_time_index((5, 50)) + b"\0\0\1", 1, "not a whole entry"),
        (a_time_index((5, 50)) + bytes(12) + a_time_index((7, 70)), 1, "others follow"),
    ],
)
def test_a_wrong_time_index_is_detected(entries, good_count, problem):
    check = TimeIndex.check(entries, base_offset=0, next_offset=100)
    assert check.entry_count == good_count
    assert problem in check.problem


@given(st.binary(max_size=200))
def test_any_bytes_give_a_verdict_and_a_count_within_bounds(entries):
    assert (
        0
        <= OffsetIndex.check(entries, base_offset=9, next_offset=90, segment_size_bytes=999).entry_count
        <= len(entries) // 8
    )
    assert 0 <= TimeIndex.check(entries, base_offset=9, next_offset=90).entry_count <= len(entries) // 12
