import pytest

from broker_core.server.connection_states import ConnectionState, assert_may_follow

FOLLOWING = {
    "new": "reading",
    "reading": "paused, ending, closing, lost",
    "paused": "reading, ending, closing, lost",
    "ending": "sending rest, closing, lost",
    "sending rest": "closing, lost",
    "closing": "lost",
    "lost": "",
}
"""Read from the figure, the other way round than the table."""


@pytest.mark.parametrize("target", ConnectionState, ids=lambda state: state.value)
@pytest.mark.parametrize("current", ConnectionState, ids=lambda state: state.value)
def test_each_state_transition_is_allowed_or_asserted(current, target):
    if target.value in FOLLOWING[current.value].split(", "):
        assert_may_follow(target, current, "1.2.3.4:5")
    else:
        with pytest.raises(AssertionError, match=f"peer=1.2.3.4:5: {target.value} cannot follow {current.value}"):
            assert_may_follow(target, current, "1.2.3.4:5")
