import pytest
from hypothesis import given, strategies

from broker_core.group.timer_keys import ADOPTED, JOIN, SESSION, SYNC, ClassicTimer, classic_timer

kinds = strategies.sampled_from([SESSION, JOIN, SYNC, ADOPTED])
ids = strategies.text(alphabet=strategies.sampled_from("ab:1\0é"))


@given(kinds, ids, ids)
def test_a_key_is_read_again_whatever_the_ids_are_made_of(kind, group_id, member_id):
    timer = ClassicTimer(kind=kind, group_id=group_id, member_id=member_id)
    assert classic_timer(timer.key) == timer


@pytest.mark.parametrize("key", ["", "consumer-session:1:g:m", "classic"])
def test_a_key_of_somebody_else_is_none_of_ours(key):
    assert classic_timer(key) is None
