import pytest

from broker_core.broker.partition.committed_bounds import CommittedBounds
from broker_core.cluster import PartitionBounds


def whole(end_offset, stable=None, start=0):
    stable = end_offset if stable is None else stable
    return PartitionBounds(
        log_start_offset=start, last_stable_offset=stable, high_watermark=end_offset, log_end_offset=end_offset
    )


def seen(bounds):
    return bounds.log_start_offset, bounds.last_stable_offset, bounds.high_watermark, bounds.log_end_offset


@pytest.fixture
def committed():
    bounds = CommittedBounds()
    bounds.note(whole(0))
    return bounds


def test_readers_see_up_to_the_high_watermark(committed):
    committed.note(whole(5))
    assert seen(committed.at(0, 3)) == (0, 0, 3, 5)
    assert seen(committed.at(0, 5)) == (0, 5, 5, 5)


@pytest.mark.parametrize(
    ("high_watermark", "stable"),
    [(2, 2), (4, 2), (5, 2), (6, 6)],
    ids=["before the transaction", "inside", "before its marker", "behind its marker"],
)
def test_the_last_stable_offset_is_the_one_of_the_log_that_ended_at_the_high_watermark(
    committed, high_watermark, stable
):
    for bounds in (whole(2), whole(4, stable=2), whole(5, stable=2), whole(6)):
        committed.note(bounds)
    assert committed.at(0, high_watermark).last_stable_offset == stable


def test_what_was_noted_of_a_truncated_end_does_not_count(committed):
    committed.note(whole(2))
    committed.note(whole(6, stable=2))
    assert committed.maybe_shorten(whole(4, stable=4))
    committed.note(whole(4, stable=4))
    assert seen(committed.at(0, 4)) == (0, 4, 4, 4)


def test_after_a_start_nothing_above_the_log_start_is_stable_until_all_that_was_found_is_committed():
    committed = CommittedBounds()
    committed.note(whole(9, start=3))
    assert seen(committed.at(3, 7)) == (3, 3, 7, 9)
    assert seen(committed.at(3, 9)) == (3, 9, 9, 9)


def test_a_high_watermark_above_the_log_end_and_a_start_above_the_high_watermark_are_bounded(committed):
    committed.note(whole(4))
    assert seen(committed.at(0, 9)) == (0, 4, 4, 4)
    assert seen(committed.at(3, 2)) == (2, 2, 2, 4)
