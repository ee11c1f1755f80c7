import pytest

from broker_core.model.transaction_state import TransactionState
from broker_core.txn.txn_states import COMMITS, COMPLETION, NEVER_STORED, PREPARED, VALID_PREDECESSORS, check_transition

PRINTED_BY_KAFKA_4_3_1 = {
    "Empty": "Empty CompleteCommit CompleteAbort",
    "Ongoing": "Ongoing Empty CompleteCommit CompleteAbort",
    "PrepareCommit": "Ongoing",
    "PrepareAbort": "Ongoing PrepareEpochFence Empty CompleteCommit CompleteAbort",
    "CompleteCommit": "PrepareCommit",
    "CompleteAbort": "PrepareAbort",
    "Dead": "Empty CompleteAbort CompleteCommit",
    "PrepareEpochFence": "Ongoing",
}
"""Its TransactionState.validPreviousStates(), for every state."""


def test_the_state_table_matches_kafka():
    table = {state.label: {each.label for each in before} for state, before in VALID_PREDECESSORS.items()}
    assert table == {state: set(before.split()) for state, before in PRINTED_BY_KAFKA_4_3_1.items()}


def test_state_numbers_and_labels_match_kafka():
    labels = "Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort Dead PrepareEpochFence"
    assert [state.label for state in sorted(TransactionState)] == labels.split()
    assert [int(state) for state in sorted(TransactionState)] == list(range(8))


@pytest.mark.parametrize("target", TransactionState, ids=lambda state: state.label)
@pytest.mark.parametrize("current", TransactionState, ids=lambda state: state.label)
def test_each_state_transition_is_allowed_or_asserted(current, target):
    if current.label in PRINTED_BY_KAFKA_4_3_1[target.label].split():
        check_transition(current, target)
    else:
        with pytest.raises(AssertionError, match=f"{target.label} cannot follow {current.label}"):
            check_transition(current, target)


def test_a_decision_completes_with_the_same_result():
    assert {state.label: COMPLETION[state].label for state in PREPARED} == {
        "PrepareCommit": "CompleteCommit",
        "PrepareAbort": "CompleteAbort",
    }
    assert {state.label for state in COMMITS} == {"PrepareCommit", "CompleteCommit"}
    assert {state.label for state in NEVER_STORED} == {"Dead", "PrepareEpochFence"}
