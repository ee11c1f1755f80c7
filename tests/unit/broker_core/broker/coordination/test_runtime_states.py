import pytest

from broker_core.broker.coordination.runtime_states import RuntimeState, assert_may_follow

FOLLOWING = {
    "loading": "loading, without topic, awaiting commit",
    "awaiting commit": "durable, loading",
    "without topic": "making topic, loading",
    "making topic": "durable, loading",
    "durable": "appending, loading",
    "appending": "durable, loading",
}
"""Read from the figure, the other way round than the table."""


@pytest.mark.parametrize("target", RuntimeState, ids=lambda state: state.value)
@pytest.mark.parametrize("current", RuntimeState, ids=lambda state: state.value)
def test_each_state_transition_is_allowed_or_asserted(current, target):
    if target.value in FOLLOWING[current.value].split(", "):
        assert_may_follow(target, current, "t-0")
    else:
        with pytest.raises(AssertionError, match=f"partition=t-0: {target.value} cannot follow {current.value}"):
            assert_may_follow(target, current, "t-0")
