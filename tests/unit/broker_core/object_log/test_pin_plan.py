from support.objects.object_builders import TOPIC_ID, a_commit, a_topic, an_image

from broker_core.cluster import GroupOffset
from broker_core.model.retention_pin import pin_metadata
from broker_core.object_log.commit import PinOffsets
from broker_core.object_log.pin_plan import pins_to_give_up, plan_giving_up, plan_pins

PLACE, OTHER = (TOPIC_ID, 0), (TOPIC_ID, 1)
PLAIN = {PLACE: GroupOffset(offset=9)}


def asked(offset, until_ms, place=PLACE):
    return {place: GroupOffset(offset=offset, metadata=pin_metadata(until_ms))}


def image_with(*pins):
    """A commit a pin, from number 2 on."""
    return an_image(a_topic(), *[PinOffsets(group_id="g", pins=((*PLACE, *pin),)) for pin in pins])


def planned(image, offsets, *, now_ms=100, own=None, own_offset=None):
    """(offset, until when) of the one pin that is to be committed."""
    plan = plan_pins(
        image,
        "g",
        offsets,
        now_ms=now_ms,
        own_commit_number=own,
        own_offsets={} if own_offset is None else {PLACE: own_offset},
    )
    if plan is None:
        return None
    ((_, _, offset, until_ms),) = plan.pins
    return offset, until_ms


def test_a_pin_holds_for_a_third_longer_than_was_asked():
    assert planned(image_with(), asked(7, 400)) == (7, 500)


def test_what_an_own_pin_covers_needs_no_commit():
    image = image_with((7, 900))
    assert planned(image, asked(8, 900), own=2, own_offset=7) is None
    assert planned(image, asked(7, 800), own=2, own_offset=7) is None


def test_an_own_pin_goes_up_to_what_was_last_written_into_the_group():
    image = image_with((7, 900))
    assert planned(image, asked(30, 1000), own=2, own_offset=20) == (20, 1300)


def test_an_offset_that_goes_back_is_pinned_at_once():
    assert planned(image_with((7, 900)), asked(6, 800), own=2, own_offset=20) == (6, 1033)


def test_of_another_querys_pin_the_lower_offset_and_the_later_end_are_kept():
    image = image_with((7, 900), (5, 2000))
    assert planned(image, asked(30, 1000), own=2, own_offset=20) == (5, 2000)
    assert planned(image, asked(3, 3000), own=None) == (3, 3966)


def test_a_query_that_finds_the_group_changed_commits_again_though_all_is_covered():
    assert planned(image_with((7, 900)), asked(8, 800), own=None) == (7, 1033)


def test_renewals_need_no_commit_until_a_third_of_a_lease_has_passed():
    image, own, commits = image_with(), None, 0
    for now_ms in range(0, 9_000, 100):
        offsets = asked(now_ms, now_ms + 3_000)
        own_offsets = {PLACE: now_ms - 100}
        plan = plan_pins(image, "g", offsets, now_ms=now_ms, own_commit_number=own, own_offsets=own_offsets)
        if plan is not None:
            commits += 1
            image.apply(a_commit(image.number + 1, plan))
            own = image.number
        held = image.pins["g"][PLACE]
        assert held.until_ms >= now_ms + 3_000 and now_ms - 1_200 <= held.offset <= now_ms
    assert commits <= 9


def test_other_partitions_of_the_group_are_left_alone():
    image = image_with((7, 900))
    plan = plan_pins(image, "g", asked(1, 400, OTHER), now_ms=100, own_commit_number=None, own_offsets={})
    image.apply(a_commit(3, plan))
    assert set(image.pins["g"]) == {PLACE, OTHER}


def test_a_pin_that_ran_out_holds_nothing():
    assert planned(image_with(), asked(7, 100)) is None


def test_an_old_pin_is_released_if_no_other_query_pinned_it_meanwhile():
    image = image_with((7, 900))
    seen = pins_to_give_up(image, "g", PLAIN, now_ms=100)
    assert plan_giving_up(image, "g", seen) == PinOffsets(group_id="g", pins=((*PLACE, 7, 0),))
    image.apply(a_commit(3, PinOffsets(group_id="g", pins=((*PLACE, 7, 900),))))
    assert plan_giving_up(image, "g", seen) is None


def test_only_what_is_committed_without_a_pin_is_given_up_or_all_with_the_group():
    image = image_with((7, 900))
    assert pins_to_give_up(image, "g", asked(8, 900), now_ms=100) == {}
    assert pins_to_give_up(image, "g", {OTHER: GroupOffset(offset=1)}, now_ms=100) == {}
    assert set(pins_to_give_up(image, "g", None, now_ms=100)) == {PLACE}
    assert pins_to_give_up(image_with(), "g", None, now_ms=100) == {}
