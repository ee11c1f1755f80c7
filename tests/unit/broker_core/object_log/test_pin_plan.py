from support.objects.object_builders import TOPIC_ID, a_commit, a_topic, an_image

from broker_core.cluster import GroupOffset
from broker_core.model.retention_pin import pin_metadata
from broker_core.object_log.commit import PinOffsets
from broker_core.object_log.pin_plan import plan_pins

PLACE = (TOPIC_ID, 0)


def pinned(offset, until_ms):
    return {PLACE: GroupOffset(offset=offset, metadata=pin_metadata(until_ms))}


def image_with(*changes):
    return an_image(a_topic(), *changes)


def test_a_pin_holds_for_longer_than_was_asked():
    plan = plan_pins(image_with(), "g", pinned(7, 400), now_ms=100)
    assert plan == PinOffsets(group_id="g", until_ms=500, offsets=((TOPIC_ID, 0, 7),))


def test_renewals_need_no_commit_until_a_third_of_a_lease_has_passed():
    image = image_with()
    commits = 0
    for now_ms in range(0, 9_000, 100):
        plan = plan_pins(image, "g", pinned(now_ms, now_ms + 3_000), now_ms=now_ms)
        if plan is not None:
            commits += 1
            image.apply(a_commit(image.number + 1, plan))
        held = image.pins["g"]
        assert held.until_ms >= now_ms + 3_000 and held.offsets[0][2] <= now_ms
    assert commits <= 9


def test_an_offset_that_goes_back_is_pinned_at_once():
    image = image_with(PinOffsets(group_id="g", until_ms=900, offsets=((TOPIC_ID, 0, 7),)))
    assert plan_pins(image, "g", pinned(7, 800), now_ms=100) is None
    assert plan_pins(image, "g", pinned(6, 800), now_ms=100).offsets == ((TOPIC_ID, 0, 6),)


def test_a_group_that_pins_nothing_any_more_says_so_once():
    image = image_with(PinOffsets(group_id="g", until_ms=900, offsets=((TOPIC_ID, 0, 7),)))
    plain = {PLACE: GroupOffset(offset=9)}
    assert plan_pins(image, "g", plain, now_ms=100) == PinOffsets(group_id="g", until_ms=0)
    assert plan_pins(image_with(), "g", plain, now_ms=100) is None


def test_a_pin_that_ran_out_holds_nothing():
    assert plan_pins(image_with(), "g", pinned(7, 100), now_ms=100) is None
