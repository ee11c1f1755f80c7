import itertools

import pytest

from broker_core.group.classic.classic_states import VALID_PREDECESSORS, ClassicState, assert_may_follow

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = ClassicState

# Kafka 4.3's ClassicGroupState, as (state, its predecessors)
KAFKA = {
    EMPTY: {PREPARING},
    PREPARING: {STABLE, COMPLETING, EMPTY},
    COMPLETING: {PREPARING},
    STABLE: {COMPLETING},
    DEAD: {STABLE, PREPARING, COMPLETING, EMPTY, DEAD},
}


@pytest.mark.parametrize(("state", "target"), list(itertools.product(ClassicState, ClassicState)))
def test_state_transitions_match_kafka(state, target):
    assert (state in VALID_PREDECESSORS[target]) == (state in KAFKA[target])
    if state in KAFKA[target]:
        assert_may_follow(target, state, "g")
    else:
        with pytest.raises(AssertionError, match=f"'g': {target.value} cannot follow {state.value}"):
            assert_may_follow(target, state, "g")


def test_states_have_the_names_of_kafkas_tools():
    names = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
    assert [state.value for state in ClassicState] == names
