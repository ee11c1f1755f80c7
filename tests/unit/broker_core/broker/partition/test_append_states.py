import pytest

from broker_core.broker.partition.append_states import UNDER_WAY, AppendState, assert_may_follow

FOLLOWING = {
    "idle": "turn awaited, memory awaited, in job, written",
    "turn awaited": "idle",
    "memory awaited": "idle",
    "in job": "idle",
    "written": "idle, rolling back",
    "rolling back": "idle",
}
"""Read from the figure, the other way round than the table."""


@pytest.mark.parametrize("target", AppendState, ids=lambda state: state.value)
@pytest.mark.parametrize("current", AppendState, ids=lambda state: state.value)
def test_each_state_transition_is_allowed_or_asserted(current, target):
    if target.value in FOLLOWING[current.value].split(", "):
        assert_may_follow(target, current)
    else:
        with pytest.raises(AssertionError, match=f"{target.value} cannot follow {current.value}"):
            assert_may_follow(target, current)


def test_every_path_ends_in_idle():
    for state in UNDER_WAY:
        assert_may_follow(AppendState.IDLE, state)
