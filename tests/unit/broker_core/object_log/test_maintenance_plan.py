from support.objects.object_builders import SOME_MS, TOPIC_ID, a_commit, a_range, a_topic, an_append, an_image

from broker_core.object_log.commit import AdvanceHorizon, MoveLogStart, PinOffsets
from broker_core.object_log.data_range import PlacedRange
from broker_core.object_log.maintenance_plan import (
    MERGED_RANGE_BYTES,
    MIN_MERGED_RANGE_COUNT,
    plan_compactions,
    plan_expired_pins,
    plan_log_starts,
    plan_merges,
    plan_replacement,
)

HOUR_MS = 3_600_000


def ranges(*sizes, first=1):
    return [a_range(number, size=size) for number, size in enumerate(sizes, first)]


def merged_offsets(image):
    return [(job.from_offset, job.until_offset) for job in plan_merges(image)]


def test_retention_by_time_takes_whole_ranges_that_are_too_old():
    old, young = a_range(1, max_ms=SOME_MS - 2 * HOUR_MS), a_range(2)
    image = an_image(a_topic(retention_ms=str(HOUR_MS)), an_append(old, young))
    assert plan_log_starts(image, SOME_MS) == (MoveLogStart(topic_id=TOPIC_ID, partition=0, offset=10),)
    assert plan_log_starts(image, SOME_MS - 2 * HOUR_MS) == ()


def test_retention_by_size_takes_the_oldest_until_the_rest_fits():
    image = an_image(a_topic(retention_bytes="250", retention_ms="-1"), an_append(*ranges(100, 100, 100, 100)))
    assert [move.offset for move in plan_log_starts(image, SOME_MS)] == [10]


def test_all_of_a_partition_may_go():
    image = an_image(a_topic(retention_ms="1"), an_append(*ranges(100, 100)))
    assert [move.offset for move in plan_log_starts(image, SOME_MS + 10)] == [20]


def test_retention_stops_at_a_live_pin():
    pin = PinOffsets(group_id="g", pins=((TOPIC_ID, 0, 15, SOME_MS + 50),))
    image = an_image(a_topic(retention_ms="1"), an_append(*ranges(100, 100, 100)), pin)
    assert [move.offset for move in plan_log_starts(image, SOME_MS + 40)] == [10]
    assert [move.offset for move in plan_log_starts(image, SOME_MS + 50)] == [30]


def test_a_topic_that_is_only_compacted_keeps_its_old_records():
    image = an_image(a_topic(cleanup_policy="compact", retention_ms="1"), an_append(*ranges(100)))
    assert plan_log_starts(image, SOME_MS + 10) == ()


def test_small_ranges_are_merged_when_there_are_enough():
    few = an_image(a_topic(), an_append(*ranges(*[100] * (MIN_MERGED_RANGE_COUNT - 1))))
    enough = an_image(a_topic(), an_append(*ranges(*[100] * MIN_MERGED_RANGE_COUNT)))
    assert merged_offsets(few) == []
    assert merged_offsets(enough) == [(0, 10 * MIN_MERGED_RANGE_COUNT)]


def test_what_is_most_of_a_run_is_not_rewritten_with_it():
    """Else each merge would copy all that was merged before."""
    sizes = [100_000, *[100] * MIN_MERGED_RANGE_COUNT]
    image = an_image(a_topic(), an_append(*ranges(*sizes)))
    assert merged_offsets(image) == [(10, 10 + 10 * MIN_MERGED_RANGE_COUNT)]


def test_large_ranges_stay_as_they_are_and_divide_runs():
    large = MERGED_RANGE_BYTES
    image = an_image(a_topic(), an_append(*ranges(*[100] * 3, large, *[100] * MIN_MERGED_RANGE_COUNT)))
    assert merged_offsets(image) == [(40, 40 + 10 * MIN_MERGED_RANGE_COUNT)]


def test_bytes_are_rewritten_a_logarithmic_number_of_times():
    """A thousand commits of one range each, merged whenever that is worth it."""
    image, written, next_object = an_image(a_topic()), 0, 1
    for _ in range(1000):
        image.apply(a_commit(image.number + 1, an_append(a_range(next_object, size=1000))))
        next_object += 1
        for job in list(plan_merges(image)):
            output = PlacedRange(job.from_offset, a_range(next_object, size=job.size_bytes)._replace(
                offset_count=job.until_offset - job.from_offset
            ))  # fmt: skip
            next_object += 1
            written += job.size_bytes
            (change,) = plan_replacement(image, job, [output])
            image.apply(a_commit(image.number + 1, change))
    assert written < 12 * 1_000_000
    assert len(image.partition(TOPIC_ID, 0).ranges) < 60


def test_a_replacement_keeps_what_was_appended_meanwhile():
    image = an_image(a_topic(), an_append(*ranges(*[100] * 8)))
    (job,) = plan_merges(image)
    image.apply(a_commit(3, an_append(a_range(99))))
    (change,) = plan_replacement(image, job, [PlacedRange(0, a_range(50, offsets=80))])
    image.apply(a_commit(4, change))
    assert [placed.base_offset for placed in image.partition(TOPIC_ID, 0).ranges] == [0, 80]


def test_a_replacement_is_dropped_if_an_input_is_gone_or_its_output_is_too_old():
    image = an_image(a_topic(), an_append(*ranges(*[100] * 8)))
    (job,) = plan_merges(image)
    output = [PlacedRange(0, a_range(50, offsets=80))]
    image.apply(a_commit(3, AdvanceHorizon(horizon_ms=SOME_MS + 1)))
    assert plan_replacement(image, job, output) is None
    image = an_image(a_topic(), an_append(*ranges(*[100] * 8)), MoveLogStart(topic_id=TOPIC_ID, partition=0, offset=10))
    assert plan_replacement(image, job, output) is None


def test_a_compacted_topic_is_due_when_enough_of_it_is_dirty():
    image = an_image(a_topic(cleanup_policy="compact"), an_append(*ranges(100, 100)))
    (job,) = plan_compactions(image, SOME_MS)
    assert (job.from_offset, job.until_offset) == (0, 20)
    assert list(plan_compactions(an_image(a_topic(), an_append(*ranges(100, 100))), SOME_MS)) == []


def test_pins_that_ran_out_long_ago_are_forgotten():
    pin = PinOffsets(group_id="g", pins=((TOPIC_ID, 0, 1, 50),))
    image = an_image(a_topic(), pin)
    assert plan_expired_pins(image, 50) == ()
    assert plan_expired_pins(image, 51) == (PinOffsets(group_id="g", pins=((TOPIC_ID, 0, 1, 0),)),)
