from broker_core.coordinator.contract import CoordinatorResult


def test_a_result_without_records_only_replies():
    assert CoordinatorResult(reply="done") == CoordinatorResult(records=(), reply="done")
