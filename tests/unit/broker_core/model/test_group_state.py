from broker_core.group.classic.classic_states import ClassicState
from broker_core.model.group_state import GroupState


def test_every_state_of_a_classic_group_has_its_name():
    assert [GroupState.named(state.value).value for state in ClassicState] == [state.value for state in ClassicState]


def test_a_state_that_is_newer_than_this_is_unknown():
    assert GroupState.named("Hibernating") is GroupState.UNKNOWN
