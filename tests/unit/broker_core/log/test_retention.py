import pytest
from support.builders.log_builders import a_segment

from broker_core.log.retention import plan_retention
from broker_core.model.topic_config import TopicConfig

NOW_MS = 1_000_000


def plan(*segments, log_start_offset=0, high_watermark=10_000, pinned_offset=None, **settings):
    return plan_retention(
        segments,
        config=TopicConfig(**settings),
        now_ms=NOW_MS,
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        pinned_offset=pinned_offset,
    )


def aged(base_offset: int, age_ms: int, **more):
    return a_segment(base_offset, base_offset + 10, max_timestamp_ms=NOW_MS - age_ms, **more)


def test_without_expired_segments_there_is_no_plan():
    assert plan(aged(0, 5), aged(10, 0), retention_ms=100) is None


def test_segments_older_than_retention_ms_are_removed_oldest_first():
    result = plan(aged(0, 300), aged(10, 101), aged(20, 100), aged(30, 0), retention_ms=100)
    assert result.removed == (0, 10)
    assert result.log_start_offset == 20
    assert not result.must_roll
    assert "retention.ms=100" in result.reasons[0]


def test_a_younger_segment_keeps_the_later_ones():
    assert plan(aged(0, 300), aged(10, 5), aged(20, 300), aged(30, 0), retention_ms=100).removed == (0,)


def test_an_expired_active_segment_is_rolled_and_removed():
    result = plan(aged(0, 300), aged(10, 200), retention_ms=100)
    assert result.removed == (0, 10)
    assert result.must_roll
    assert result.log_start_offset == 20


def test_an_empty_active_segment_is_kept():
    result = plan(aged(0, 300), aged(10, 300, size_bytes=0), retention_ms=100)
    assert result.removed == (0,)
    assert not result.must_roll
    assert plan(aged(0, 300, size_bytes=0), retention_ms=100) is None


def test_retention_of_minus_one_keeps_everything():
    assert plan(aged(0, 10**6), aged(10, 0), retention_ms=-1) is None


def test_retention_bytes_keeps_at_least_that_many_bytes():
    segments = [aged(offset, 0) for offset in (0, 10, 20, 30)]
    assert plan(*segments, retention_bytes=2_500).removed == (0,)
    assert plan(*segments, retention_bytes=2_000).removed == (0, 10)
    assert plan(*segments, retention_bytes=4_000) is None
    everything = plan(*segments, retention_bytes=0)
    assert everything.removed == (0, 10, 20, 30) and everything.must_roll


def test_segments_removed_by_size_are_not_removed_by_time_again():
    result = plan(aged(0, 5), aged(10, 500), aged(20, 0), retention_bytes=2_000, retention_ms=100)
    assert result.removed == (0, 10)
    assert "retention.bytes" in result.reasons[0] and "retention.ms" in result.reasons[1]


@pytest.mark.parametrize("policy", [{"compact"}, {"delete"}, set()])
def test_segments_below_the_log_start_are_removed_under_every_policy(policy):
    result = plan(aged(0, 5), aged(10, 5), aged(20, 0), log_start_offset=15, cleanup_policy=frozenset(policy))
    assert result.removed == (0,)
    assert result.log_start_offset == 15


def test_retention_does_not_apply_to_a_compacted_topic():
    assert (
        plan(aged(0, 10**5), aged(10, 0), cleanup_policy=frozenset({"compact"}), retention_ms=1, retention_bytes=1)
        is None
    )


def test_compact_and_delete_removes_by_age():
    both = frozenset({"compact", "delete"})
    assert plan(aged(0, 300), aged(10, 0), cleanup_policy=both, retention_ms=100).removed == (0,)


def test_nothing_at_or_above_the_high_watermark_is_removed():
    assert plan(aged(0, 300), aged(10, 300), aged(20, 0), retention_ms=100, high_watermark=15).removed == (0,)


def test_without_timestamps_the_file_time_is_used_and_without_both_nothing_is_removed():
    old = a_segment(0, 10, max_timestamp_ms=-1, modified_ms=NOW_MS - 500)
    assert plan(old, aged(10, 0), retention_ms=100).removed == (0,)
    assert plan(a_segment(0, 10, max_timestamp_ms=-1), aged(10, 0), retention_ms=100) is None


def test_a_future_timestamp_does_not_expire():
    assert plan(aged(0, -(10**9)), aged(10, 500), retention_ms=100) is None


def test_retention_keeps_a_pinned_offset_and_everything_after_it():
    segments = [aged(base, 500) for base in (0, 10, 20, 30)]
    for settings in ({"retention_ms": 100}, {"retention_bytes": 0, "retention_ms": -1}):
        assert plan(*segments, pinned_offset=20, **settings).removed == (0, 10)
        assert plan(*segments, pinned_offset=19, **settings).removed == (0,)
        assert plan(*segments, pinned_offset=0, **settings) is None
        assert plan(*segments, pinned_offset=10**6, **settings).removed == (0, 10, 20, 30)


def test_records_deleted_by_offset_are_not_pinned():
    assert plan(aged(0, 5), aged(10, 5), aged(20, 0), log_start_offset=20, pinned_offset=0).removed == (0, 10)
