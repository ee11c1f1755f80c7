import itertools
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runs.examples import examples

from broker_core.model.identifiers import TopicPartition
from broker_core.model.limits import MAX_OFFSET
from spark_streamlog.planning.filter_ranges import (
    MAX_KEY_COUNT,
    MAX_RANGE_COUNT,
    ColumnFilter,
    admits,
    coalesced,
    intersection,
    key_sets,
    least_timestamp_ms,
    offset_ranges,
    shown,
    union,
    without,
)

COMPARE = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def a_filter(column, operator, *values):
    return ColumnFilter(column=column, operator=operator, values=values)


def passes(one, value):
    return value in one.values if one.operator == "in" else COMPARE[one.operator](value, one.values[0])


def members(ranges):
    return {offset for start, end in ranges for offset in range(start, end)}


def filters_on(column, values):
    single = st.builds(lambda o, v: a_filter(column, o, v), st.sampled_from(list(COMPARE)), values)
    several = st.builds(lambda vs: a_filter(column, "in", *vs), st.lists(values, max_size=5))
    return st.lists(single | several, max_size=4)


small = st.integers(-3, 25)
some_ranges = st.lists(st.tuples(small, small)).map(union)


def is_tidy(ranges):
    return all(start < end for start, end in ranges) and all(a[1] < b[0] for a, b in itertools.pairwise(ranges))


@examples(200)
@given(filters_on("offset", small), st.tuples(st.integers(0, 20), st.integers(0, 20)))
def test_offset_filters_give_exactly_the_matching_ranges_except_for_unequal(filters, whole):
    ranges = offset_ranges(filters, whole)
    assert is_tidy(ranges)
    passing = {offset for offset in range(*whole) if all(passes(one, offset) for one in filters)}
    assert members(ranges) >= passing
    if all(one.operator != "<>" for one in filters):
        assert members(ranges) == passing


@pytest.mark.parametrize("value", [-(2**70), 0, MAX_OFFSET, 2**70])
@pytest.mark.parametrize("operator", [*COMPARE, "in"])
def test_offsets_of_any_size_are_compared_as_numbers(operator, value):
    whole = (MAX_OFFSET - 2, MAX_OFFSET)
    one = a_filter("offset", operator, value)
    assert members(offset_ranges([one], whole)) >= {offset for offset in range(*whole) if passes(one, offset)}


@given(filters_on("partition", st.integers(0, 4)), filters_on("topic", st.sampled_from(["a", "b", "é", "z"])))
def test_a_partition_is_read_if_its_topic_and_number_match(by_number, by_topic):
    for topic in ("a", "b", "é"):
        for number in range(4):
            expected = all(passes(one, number) for one in by_number) and all(passes(one, topic) for one in by_topic)
            assert admits([*by_number, *by_topic], TopicPartition(topic, number)) == expected


MILLISECONDS = range(-6, 8)
whole_ms_in_us = st.integers(-5, 5).map(lambda ms: ms * 1000)


@given(filters_on("timestamp", whole_ms_in_us | st.integers(-5_000, 5_000)))
def test_no_matching_record_is_below_the_least_timestamp(filters):
    filters = [one for one in filters if one.values]
    least = least_timestamp_ms(filters)
    passing = [ms for ms in MILLISECONDS if all(passes(one, ms * 1000) for one in filters)]
    assert [ms for ms in passing if least is not None and ms < least] == []


@given(filters_on("timestamp", whole_ms_in_us))
def test_the_least_timestamp_is_that_of_the_strictest_filter(filters):
    filters = [one for one in filters if one.values]
    firsts = [
        min(ms for ms in MILLISECONDS if passes(one, ms * 1000))
        for one in filters
        if one.operator in ("=", ">", ">=", "in")
    ]
    assert least_timestamp_ms(filters) == max(firsts, default=None)


@pytest.mark.parametrize(
    ("operator", "value_us", "least_ms"),
    [(">=", 1000, 1), (">=", 1001, 2), (">=", 999, 1), (">", 999, 1), (">", 1000, 2), ("=", 5000, 5), ("<", 7, None)],
)
def test_a_bound_in_microseconds_is_rounded_to_milliseconds(operator, value_us, least_ms):
    assert least_timestamp_ms([a_filter("timestamp", operator, value_us)]) == least_ms


def test_an_empty_list_excludes_every_offset_and_key():
    assert offset_ranges([a_filter("offset", "in")], (0, 10)) == ()
    assert key_sets([a_filter("key", "in")]) == (frozenset(),)
    assert not admits([a_filter("partition", "in")], TopicPartition("t", 0))


def test_key_filters_are_sets_of_which_one_key_must_occur():
    filters = [a_filter("key", "=", b"a"), a_filter("key", "in", b"a", b"b"), a_filter("key", "is null")]
    assert key_sets(filters) == ({b"a"}, {b"a", b"b"}, {None})


def test_a_list_of_keys_is_used_up_to_the_bound():
    keys = [b"%d" % n for n in range(MAX_KEY_COUNT + 1)]
    assert len(key_sets([a_filter("key", "in", *keys[1:])])) == 1
    assert key_sets([a_filter("key", "in", *keys)]) == ()


@given(some_ranges, some_ranges, st.tuples(small, small))
def test_range_operations_equal_set_operations_on_offsets(first, second, cut):
    assert members(intersection(first, second)) == members(first) & members(second)
    assert members(union([*first, *second])) == members(first) | members(second)
    assert members(without(first, cut)) == members(first) - set(range(*cut))
    for result in (intersection(first, second), union([*first, *second]), without(first, cut)):
        assert is_tidy(result)


@given(some_ranges, st.integers(1, 4))
def test_too_many_ranges_are_joined_across_their_smallest_gaps(ranges, count):
    joined = coalesced(ranges, count)
    assert len(joined) == min(len(ranges), count)
    assert members(joined) >= members(ranges)
    left = [b[0] - a[1] for a, b in itertools.pairwise(joined)]
    gaps = sorted((b[0] - a[1] for a, b in itertools.pairwise(ranges)), reverse=True)
    assert sorted(left, reverse=True) == gaps[: len(left)]


def test_a_long_list_of_offsets_becomes_few_ranges():
    one = a_filter("offset", "in", *range(0, 4 * MAX_RANGE_COUNT, 2))
    assert len(offset_ranges([one], (0, MAX_OFFSET))) == MAX_RANGE_COUNT
    one = a_filter("offset", "in", *range(0, 2 * MAX_RANGE_COUNT, 2))
    assert len(offset_ranges([one], (0, MAX_OFFSET))) == MAX_RANGE_COUNT


def test_the_text_of_filters_contains_no_keys():
    filters = [a_filter("partition", "=", 3), a_filter("key", "in", b"ab", b"c"), a_filter("key", "is null")]
    assert shown(filters) == "partition = 3 and key in (?, ?) and key is null"
    assert shown([a_filter("topic", "in", "a", "b"), a_filter("key", "=", b"x")]) == "topic in ('a', 'b') and key = ?"
    assert shown([]) == "none"
