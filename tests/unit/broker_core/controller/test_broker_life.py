"""Every state of a broker with everything a heartbeat can say and every situation, beside Kafka 4.3.1's rules."""

import itertools

import pytest

from broker_core.controller.broker_life import (
    TRANSITIONS,
    BrokerSituation,
    BrokerState,
    BrokerWish,
    next_state,
    wish_of,
)

LIVING = (BrokerState.FENCED, BrokerState.UNFENCED, BrokerState.CONTROLLED_SHUTDOWN)
SITUATIONS = [
    BrokerSituation(is_caught_up=caught_up, leads=leads, is_shutdown_known=known)
    for caught_up, leads, known in itertools.product((False, True), repeat=3)
]


def as_kafka(state, wish, situation):
    """BrokerHeartbeatManager.calculateNextBrokerState, and the fencing of stale brokers."""
    if wish is BrokerWish.SILENT:
        return "FENCED"
    want_fence = wish in (BrokerWish.FENCE, BrokerWish.FENCE_AND_STOP)
    want_stop = wish in (BrokerWish.STOP, BrokerWish.FENCE_AND_STOP)
    if state is BrokerState.FENCED:
        if want_stop:
            return "SHUTDOWN_NOW"
        return "UNFENCED" if not want_fence and situation.is_caught_up else "FENCED"
    if state is BrokerState.UNFENCED:
        if want_fence:
            return "SHUTDOWN_NOW" if want_stop else "FENCED"
        if want_stop:
            return "CONTROLLED_SHUTDOWN" if situation.leads else "SHUTDOWN_NOW"
        return "UNFENCED"
    if situation.leads or not situation.is_shutdown_known:
        return "CONTROLLED_SHUTDOWN"
    return "SHUTDOWN_NOW"


@pytest.mark.parametrize(("state", "wish"), list(itertools.product(LIVING, BrokerWish)))
def test_every_cell_is_kafkas(state, wish):
    for situation in SITUATIONS:
        assert next_state(state, wish, situation).name == as_kafka(state, wish, situation), situation


def test_the_table_has_every_state_that_a_registration_can_have_and_every_wish():
    assert set(TRANSITIONS) == set(LIVING)
    assert all(set(row) == set(BrokerWish) for row in TRANSITIONS.values())


@pytest.mark.parametrize(
    ("want_fence", "want_stop", "wish"),
    [(False, False, "RUN"), (True, False, "FENCE"), (False, True, "STOP"), (True, True, "FENCE_AND_STOP")],
)
def test_a_heartbeat_has_two_flags_and_four_meanings(want_fence, want_stop, wish):
    assert wish_of(want_fence=want_fence, want_stop=want_stop).name == wish
