import pytest
from support.objects.object_builders import (
    OTHER_ID,
    SOME_MS,
    TOPIC_ID,
    a_commit,
    a_path,
    a_range,
    a_topic,
    an_append,
    an_image,
)

from broker_core.model.exceptions import CorruptObjectError
from broker_core.object_log.commit import (
    AdvanceHorizon,
    DeleteTopic,
    MoveLogStart,
    PinOffsets,
    ReplaceRanges,
    SkipOffsets,
)
from broker_core.object_log.data_range import PlacedRange
from broker_core.object_log.partition_image import input_digest
from broker_core.staged_writes import AppVersion


def partition_of(image, number=0):
    return image.partition(TOPIC_ID, number)


def a_replacement(image, begin, end, *outputs, **fields):
    partition = partition_of(image)
    first, last = partition.rows_between(begin, end)
    digest = input_digest([partition.ranges[row] for row in range(first, last)])
    values = {
        "topic_id": TOPIC_ID,
        "partition": 0,
        "from_offset": begin,
        "until_offset": end,
        "input_digest": digest,
        "outputs": tuple(outputs),
    }
    return ReplaceRanges(**(values | fields))


def test_ranges_lie_one_behind_the_other():
    image = an_image(a_topic(), an_append(a_range(1), a_range(2, offsets=5)), an_append(a_range(3)))
    assert [placed.base_offset for placed in partition_of(image).ranges] == [0, 10, 15]
    assert partition_of(image).log_end_offset == 25
    assert partition_of(image, 1).log_end_offset == 0


def test_base_offsets_are_known_before_the_commit_is_made():
    image = an_image(a_topic(), an_append(a_range(1)))
    commit = a_commit(3, an_append(a_range(2, offsets=4), a_range(3)))
    assert image.base_offsets_of(commit) == (10, 14)
    skipping = a_commit(3, a_skip(10, 30), an_append(a_range(2, offsets=4), a_range(3)))
    assert image.base_offsets_of(skipping) == (30, 34)


def a_skip(from_offset, until_offset, partition=0):
    return SkipOffsets(topic_id=TOPIC_ID, partition=partition, from_offset=from_offset, until_offset=until_offset)


def test_skipped_offsets_are_a_gap():
    image = an_image(a_topic(), an_append(a_range(1)), [a_skip(10, 30), an_append(a_range(2))], a_skip(0, 7, 1))
    assert [(placed.base_offset, placed.end_offset) for placed in partition_of(image).ranges] == [(0, 10), (30, 40)]
    assert (partition_of(image).log_start_offset, partition_of(image).log_end_offset) == (0, 40)
    assert (len(partition_of(image, 1).ranges), partition_of(image, 1).log_end_offset) == (0, 7)


@pytest.mark.parametrize(
    ("number", "change", "why"),
    [
        (4, a_topic("x", topic_id=OTHER_ID), "commit 4 .* cannot follow commit 2"),
        (3, an_append(a_range(2), topic_id=OTHER_ID), "no partition 0"),
        (3, an_append(a_range(2), partition=2), "no partition 2"),
        (3, an_append(a_range(1)), "was committed before"),
        (3, a_topic(partitions=1), "exists"),
        (3, a_topic(topic_id=OTHER_ID), "exists"),
        (3, DeleteTopic(topic_id=OTHER_ID), "no topic"),
        (3, MoveLogStart(topic_id=TOPIC_ID, partition=0, offset=11), "outside"),
        (3, SkipOffsets(topic_id=TOPIC_ID, partition=0, from_offset=9, until_offset=12), "ends at 10"),
        (3, SkipOffsets(topic_id=TOPIC_ID, partition=0, from_offset=10, until_offset=10), "ends at 10"),
        (3, SkipOffsets(topic_id=TOPIC_ID, partition=2, from_offset=0, until_offset=10), "no partition 2"),
    ],
)
def test_a_commit_that_does_not_fit_is_refused_and_named(number, change, why):
    image = an_image(a_topic(), an_append(a_range(1)))
    with pytest.raises(CorruptObjectError, match=f"commits/0+{number} does not fit .*{why}"):
        image.apply(a_commit(number, change))


def test_a_commit_that_was_written_after_another_one_is_refused():
    image = an_image(a_topic())
    with pytest.raises(CorruptObjectError, match="written after another commit 1, which was removed"):
        image.apply(a_commit(2, previous_writer=f"{9:032x}"))
    an_image(a_topic()).apply(a_commit(2, previous_writer=f"{1:032x}"))


def test_a_version_is_committed_once():
    image = an_image(a_topic())
    image.apply(a_commit(2, app=AppVersion(app_id="a", version=3, note="n")))
    assert image.apps["a"] == AppVersion(app_id="a", version=3, note="n")
    with pytest.raises(CorruptObjectError, match="version 3 of 'a' cannot follow version 3"):
        image.apply(a_commit(3, app=AppVersion(app_id="a", version=3)))


def test_replaced_ranges_give_way_and_their_objects_are_dropped():
    image = an_image(a_topic(), an_append(a_range(1), a_range(2), a_range(3)))
    merged = a_range(9, offsets=20, size=200)
    image.apply(a_commit(3, a_replacement(image, 0, 20, PlacedRange(0, merged)), time_ms=SOME_MS + 5))
    assert [placed.data.object for placed in partition_of(image).ranges] == [a_path(9), a_path(3)]
    assert partition_of(image).ranges.size_bytes == 300
    assert image.dropped == {a_path(1): SOME_MS + 5, a_path(2): SOME_MS + 5}
    assert image.references == {a_path(9): 1, a_path(3): 1}


def test_what_was_appended_meanwhile_stays_behind_replaced_ranges():
    image = an_image(a_topic(), an_append(a_range(1), a_range(2)))
    replacement = a_replacement(image, 0, 20, PlacedRange(0, a_range(9, offsets=20)))
    image.apply(a_commit(3, an_append(a_range(4))))
    image.apply(a_commit(4, replacement))
    assert [placed.base_offset for placed in partition_of(image).ranges] == [0, 20]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"until_offset": 15}, "no whole ranges"),
        ({"from_offset": 5}, "no whole ranges"),
        ({"input_digest": "00000000"}, "different ranges"),
        ({"outputs": (PlacedRange(0, a_range(9, offsets=21)),)}, "wrong offsets"),
        ({"outputs": (PlacedRange(5, a_range(9)), PlacedRange(14, a_range(8, offsets=1)))}, "wrong offsets"),
    ],
)
def test_a_replacement_that_does_not_fit_is_refused(fields, why):
    image = an_image(a_topic(), an_append(a_range(1), a_range(2)))
    with pytest.raises(CorruptObjectError, match=why):
        image.apply(a_commit(3, a_replacement(image, 0, 20, **fields)))


def test_a_log_start_takes_whole_ranges_and_leaves_the_one_it_lies_in():
    image = an_image(a_topic(), an_append(a_range(1), a_range(2), a_range(3)))
    image.apply(a_commit(3, MoveLogStart(topic_id=TOPIC_ID, partition=0, offset=15)))
    assert partition_of(image).log_start_offset == 15
    assert [placed.base_offset for placed in partition_of(image).ranges] == [10, 20]
    assert set(image.dropped) == {a_path(1)}


def test_an_object_of_several_ranges_is_dropped_with_the_last_of_them():
    shared = [a_range(1, position=position) for position in (0, 100)]
    image = an_image(a_topic(), an_append(*shared))
    image.apply(a_commit(3, MoveLogStart(topic_id=TOPIC_ID, partition=0, offset=10)))
    assert (image.references, image.dropped) == ({a_path(1): 1}, {})
    image.apply(a_commit(4, MoveLogStart(topic_id=TOPIC_ID, partition=0, offset=20)))
    assert (image.references, set(image.dropped)) == ({}, {a_path(1)})


def test_a_deleted_topic_drops_its_objects_and_its_pins():
    pin = PinOffsets(group_id="g", pins=((TOPIC_ID, 0, 3, SOME_MS + 10),))
    image = an_image(a_topic(), an_append(a_range(1)), pin, DeleteTopic(topic_id=TOPIC_ID))
    assert (image.topics, set(image.dropped), dict(image.pins)) == ({}, {a_path(1)}, {})
    assert image.partition(TOPIC_ID, 0) is None


def test_a_horizon_forgets_what_was_dropped_before_it_and_refuses_what_was_begun_before_it():
    image = an_image(a_topic(), an_append(a_range(1)), MoveLogStart(topic_id=TOPIC_ID, partition=0, offset=10))
    assert image.was_committed(a_path(1))
    image.apply(a_commit(4, AdvanceHorizon(horizon_ms=SOME_MS + 1)))
    assert not image.was_committed(a_path(1))
    assert not image.may_enter(a_path(2))
    assert image.may_enter(a_path(2, SOME_MS + 1))
    with pytest.raises(CorruptObjectError, match="older than the horizon"):
        image.apply(a_commit(5, an_append(a_range(2))))


def test_a_horizon_does_not_go_back():
    image = an_image(AdvanceHorizon(horizon_ms=9), AdvanceHorizon(horizon_ms=3))
    assert image.horizon_ms == 9


def test_pins_hold_the_smallest_offset_as_long_as_they_live():
    pins = [
        PinOffsets(group_id="g", pins=((TOPIC_ID, 0, 3, 100), (TOPIC_ID, 1, 1, 100))),
        PinOffsets(group_id="h", pins=((TOPIC_ID, 0, 2, 50),)),
    ]
    image = an_image(a_topic(), *pins)
    assert [image.pinned_offset(TOPIC_ID, 0, now) for now in (49, 50, 100)] == [2, 3, None]
    image.apply(a_commit(4, PinOffsets(group_id="g", pins=((TOPIC_ID, 0, 0, 0),))))
    assert {group: set(pins) for group, pins in image.pins.items()} == {"g": {(TOPIC_ID, 1)}, "h": {(TOPIC_ID, 0)}}
    image.apply(a_commit(5, PinOffsets(group_id="g", pins=((TOPIC_ID, 1, 0, 0),))))
    assert set(image.pins) == {"h"}
    assert image.pins["h"][(TOPIC_ID, 0)].commit_number == 3
