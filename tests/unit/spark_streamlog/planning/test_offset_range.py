"""One line of ranges in, one line out, as in Spark's own suite."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_core.model.identifiers import TopicPartition
from spark_streamlog.planning.offset_range import OffsetRange, split_ranges


def ranges(text):
    """`a 1-5, b 1-21` -> ranges of partition 0 of these topics."""
    found = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        topic, offsets = part.split()
        from_offset, until_offset = map(int, offsets.split("-"))
        found.append(
            OffsetRange(topic_partition=TopicPartition(topic, 0), from_offset=from_offset, until_offset=until_offset)
        )
    return found


@pytest.mark.parametrize(
    ("what", "min_partitions", "max_records", "given_ranges", "expected"),
    [
        ("without limits each range is one piece", None, None, "a 1-2", "a 1-2"),
        ("without limits empty ranges are dropped", None, None, "a 1-2, b 1-1", "a 1-2"),
        ("ranges that end below their start are dropped", None, None, "a 5-2, b 1-3", "b 1-3"),
        ("N partitions make N pieces", 3, None, "a 1-2, b 1-2, c 1-2", "a 1-2, b 1-2, c 1-2"),
        ("one partition makes N pieces", 4, None, "a 1-5", "a 1-2, a 2-3, a 3-4, a 4-5"),
        ("skewed", 4, None, "a 1-5, b 1-21", "a 1-5, b 1-7, b 7-14, b 14-21"),
        ("empty ones are ignored and the rest is split", 4, None, "a 1-1, b 1-21", "b 1-6, b 6-11, b 11-16, b 16-21"),
        ("very skewed", 4, None, "a 1-2, b 1-1001", "a 1-2, b 1-334, b 334-667, b 667-1001"),
        ("fewer asked for than there are", 1, None, "a 1-5, b 1-21", "a 1-5, b 1-21"),
        ("an inexact multiple: the last takes the rounding", 3, None, "a 1-11", "a 1-4, a 4-7, a 7-11"),
        ("empty ranges are ignored", 4, None, "a 1-5, b 1-21, c 1-1", "a 1-5, b 1-7, b 7-14, b 14-21"),
        (
            "offsets are never dropped (SPARK-28489)", 6, None,
            "a 0-10, b 0-10, c 0-1", "a 0-3, a 3-6, a 6-10, b 0-3, b 3-6, b 6-10, c 0-1",
        ),
        (
            "no small and three large ones (SPARK-36576)", 9, None,
            "a 0-10000, b 0-15000, c 0-20000",
            "a 0-5000, a 5000-10000, b 0-5000, b 5000-10000, b 10000-15000, "
            "c 0-5000, c 5000-10000, c 10000-15000, c 15000-20000",
        ),
        (
            "one small and two large ones (SPARK-36576)", 6, None,
            "a 0-500, b 0-12000, c 0-15001",
            "a 0-500, b 0-6000, b 6000-12000, c 0-5000, c 5000-10000, c 10000-15001",
        ),
        (
            "two small and one large one (SPARK-36576)", 6, None,
            "a 0-1, b 0-1, c 0-10000",
            "a 0-1, b 0-1, c 0-2500, c 2500-5000, c 5000-7500, c 7500-10000",
        ),
        ("max records cut", None, 4, "a 1-5, b 1-21", "a 1-5, b 1-5, b 5-9, b 9-13, b 13-17, b 17-21"),
        ("max records that do not divide", None, 7, "a 0-20", "a 0-6, a 6-13, a 13-20"),
        ("max records above every range", None, 100, "a 0-20, b 0-1", "a 0-20, b 0-1"),
        ("the finer wins: max records", 2, 5, "a 0-20", "a 0-5, a 5-10, a 10-15, a 15-20"),
        ("the finer wins: min partitions", 4, 15, "a 0-20", "a 0-5, a 5-10, a 10-15, a 15-20"),
        ("nothing to read", 4, 10, "a 3-3", ""),
        ("more pieces than offsets", 100, None, "a 0-3", "a 0-1, a 1-2, a 2-3"),
    ],
)  # fmt: skip
def test_ranges_are_split_as_the_options_require(what, min_partitions, max_records, given_ranges, expected):
    assert split_ranges(
        ranges(given_ranges), min_partitions=min_partitions, max_records_per_partition=max_records
    ) == ranges(expected), what


@given(
    sizes=st.lists(st.integers(0, 10**12) | st.integers(0, 20), max_size=8),
    min_partitions=st.none() | st.integers(1, 50),
    max_share=st.none() | st.integers(1, 20),
)
def test_pieces_cover_every_range_once_and_in_order(sizes, min_partitions, max_share):
    whole = [
        OffsetRange(topic_partition=TopicPartition("t", number), from_offset=7, until_offset=7 + size)
        for number, size in enumerate(sizes)
    ]
    max_records = None if max_share is None else max(1, max(sizes, default=1) // max_share)
    pieces = split_ranges(whole, min_partitions=min_partitions, max_records_per_partition=max_records)
    for one in whole:
        own = [p for p in pieces if p.topic_partition == one.topic_partition]
        expected_from = one.from_offset
        for piece in own:
            assert piece.from_offset == expected_from
            assert piece.size > 0
            assert max_records is None or piece.size <= max_records
            expected_from = piece.until_offset
        assert expected_from == one.until_offset
