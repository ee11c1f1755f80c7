from broker_core.group.classic.classic_states import ClassicState
from broker_core.model.group_state import GroupState


def test_every_classic_group_state_has_a_name():
    assert [GroupState.named(state.value).value for state in ClassicState] == [state.value for state in ClassicState]


def test_a_group_state_of_a_newer_kafka_is_unknown():
    assert GroupState.named("Hibernating") is GroupState.UNKNOWN
