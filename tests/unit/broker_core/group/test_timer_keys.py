import pytest
from hypothesis import given, strategies

from broker_core.group.timer_keys import ADOPTED, JOIN, SESSION, SYNC, ClassicTimer, classic_timer

kinds = strategies.sampled_from([SESSION, JOIN, SYNC, ADOPTED])
ids = strategies.text(alphabet=strategies.sampled_from("ab:1\0é"))


@given(kinds, ids, ids)
def test_timer_keys_round_trip_for_any_ids(kind, group_id, member_id):
    timer = ClassicTimer(kind=kind, group_id=group_id, member_id=member_id)
    assert classic_timer(timer.key) == timer


@pytest.mark.parametrize("key", ["", "consumer-session:1:g:m", "classic"])
def test_keys_of_other_timers_are_ignored(key):
    assert classic_timer(key) is None
