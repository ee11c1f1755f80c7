import pytest
from support.objects.object_builders import SOME_MS, TOPIC_ID, a_path, a_range, a_topic, an_append, an_image

from broker_core.object_log.commit import AdvanceHorizon, MoveLogStart
from broker_core.object_log.garbage_plan import garbage_horizon_ms, garbage_of
from broker_core.ports import ObjectEntry


@pytest.mark.parametrize(
    ("now_ms", "store_now_ms", "horizon_ms"),
    [(1000, 1000, 900), (5000, 1000, 900), (1000, 5000, 900), (1000, None, 900), (50, 50, 0)],
    ids=["one time", "own clock ahead", "store ahead", "store unknown", "younger than the grace time"],
)
def test_the_horizon_goes_by_the_clock_that_is_behind(now_ms, store_now_ms, horizon_ms):
    assert garbage_horizon_ms(now_ms=now_ms, store_now_ms=store_now_ms, grace_ms=100) == horizon_ms


def test_garbage_is_old_and_neither_referenced_nor_just_given_up():
    image = an_image(
        a_topic(),
        an_append(a_range(1), a_range(2)),
        MoveLogStart(topic_id=TOPIC_ID, partition=0, offset=10),
        AdvanceHorizon(horizon_ms=SOME_MS),
    )
    names = {
        "referenced": a_path(2),
        "given up since the horizon": a_path(1),
        "old": a_path(3, SOME_MS - 1),
        "young": a_path(4),
        "not ours": "data/readme.txt",
    }
    listed = [ObjectEntry(path=path, size_bytes=1, modified_ms=0) for path in names.values()]
    assert list(garbage_of(image, listed)) == [names["old"]]
