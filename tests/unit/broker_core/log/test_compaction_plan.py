import pytest
from support.builders.log_builders import a_segment

from broker_core.log.compaction_plan import group_segments, plan_compaction
from broker_core.model.topic_config import TopicConfig

NOW_MS = 1_000_000
COMPACT = frozenset({"compact"})


def plan(*segments, checkpoint=None, start=0, stable=None, end=None, **settings):
    end = segments[-1].next_offset if end is None else end
    return plan_compaction(
        segments,
        config=TopicConfig(cleanup_policy=settings.pop("cleanup_policy", COMPACT), **settings),
        checkpoint_offset=checkpoint,
        log_start_offset=start,
        last_stable_offset=end if stable is None else stable,
        log_end_offset=end,
        now_ms=NOW_MS,
    )


def a_log(*bases: int):
    return [a_segment(base, base + 10) for base in bases]


def test_only_compacted_topics_are_compacted():
    assert plan(*a_log(0, 10, 20), cleanup_policy=frozenset({"delete"})) is None
    assert plan(*a_log(0, 10, 20), cleanup_policy=frozenset({"compact", "delete"})) is not None


def test_the_active_segment_is_never_cleaned():
    assert plan(*a_log(0)) is None
    assert plan(*a_log(0, 10, 20)).until_offset == 20


def test_the_dirty_section_begins_at_the_checkpoint():
    result = plan(*a_log(0, 10, 20, 30), checkpoint=10)
    assert (result.first_dirty_offset, result.until_offset) == (10, 30)
    assert (result.clean_bytes, result.dirty_bytes) == (1_000, 2_000)
    assert result.is_due


def test_a_checkpoint_inside_a_segment_makes_that_segment_dirty():
    assert plan(*a_log(0, 10, 20), checkpoint=15).dirty_bytes == 1_000


def test_without_dirty_bytes_there_is_no_plan():
    assert plan(*a_log(0, 10, 20), checkpoint=20) is None


@pytest.mark.parametrize("checkpoint", [3, 999])
def test_a_checkpoint_outside_the_log_is_reset_to_its_start(checkpoint):
    result = plan(*a_log(0, 10, 20), checkpoint=checkpoint, start=5)
    assert result.first_dirty_offset == 5
    assert result.must_reset_checkpoint


def test_an_open_transaction_keeps_its_segment_and_all_later_ones():
    assert plan(*a_log(0, 10, 20, 30), stable=25).until_offset == 20
    assert plan(*a_log(0, 10, 20, 30), stable=5) is None


def test_young_segments_wait_for_min_compaction_lag():
    old, young = a_segment(0, 10, max_timestamp_ms=NOW_MS - 101), a_segment(10, 20, max_timestamp_ms=NOW_MS - 99)
    result = plan(old, young, a_segment(20, 30), min_compaction_lag_ms=100)
    assert result.until_offset == 10


def test_compaction_is_due_only_above_the_dirty_ratio():
    log = a_log(0, 10, 20, 30, 40)
    assert not plan(*log, checkpoint=20, min_cleanable_dirty_ratio=0.5).is_due
    assert plan(*log, checkpoint=10, min_cleanable_dirty_ratio=0.5).is_due


def test_compaction_is_due_when_a_record_waits_longer_than_max_compaction_lag():
    clean = a_segment(0, 10, size_bytes=10**6)
    dirty = a_segment(10, 20, first_timestamp_ms=NOW_MS - 500)
    assert not plan(clean, dirty, a_segment(20, 30), checkpoint=10, max_compaction_lag_ms=500).is_due
    assert plan(clean, dirty, a_segment(20, 30), checkpoint=10, max_compaction_lag_ms=499).is_due


# -- grouping --


def groups(segments, **settings):
    config = TopicConfig(**{"segment_bytes": 2_000, "segment_index_bytes": 100, **settings})
    return [[s.base_offset for s in group] for group in group_segments(segments, config=config)]


def test_small_segments_are_grouped_up_to_the_segment_size():
    assert groups(a_log(0, 10, 20, 30, 40)) == [[0, 10], [20, 30], [40]]


def test_a_large_segment_is_its_own_group():
    assert groups([a_segment(0, 10, size_bytes=5_000), *a_log(10, 20)]) == [[0], [10, 20]]


def test_groups_are_limited_by_index_size():
    assert groups([a_segment(base, base + 10, index_size_bytes=60) for base in (0, 10)]) == [[0], [10]]


def test_groups_are_limited_by_the_distance_from_the_base_offset():
    far = 2**31 + 5
    assert groups([*a_log(0, 10), a_segment(far, far + 10)]) == [[0, 10], [far]]
    empty = a_segment(far, far, size_bytes=0)
    assert groups([*a_log(0, 10), empty]) == [[0, 10, far]]


def test_no_segments_give_no_groups():
    assert groups([]) == []
