import pytest

from broker_core.broker.partition.append_budget import AppendBudget
from broker_core.model.limits import MAX_APPEND_GROUP_BYTES, MAX_QUEUED_APPEND_BYTES, MAX_WRITING_BYTES


class BudgetWriter:
    """Asks for so many bytes until it gets them."""

    def __init__(self, name, budget, size_bytes, order):
        self.name, self.budget, self.size_bytes, self.order = name, budget, size_bytes, order
        self.ask()

    def ask(self):
        if self.budget.may_write(self.size_bytes, self.ask):
            self.order.append(self.name)


def test_the_limit_is_admitted_and_one_more_byte_waits():
    budget = AppendBudget(max_writing_bytes=100)
    assert budget.may_write(60, pytest.fail)
    assert budget.may_write(40, pytest.fail)
    assert not budget.may_write(1, lambda: None)


def test_waiting_appends_are_admitted_in_order():
    budget, order = AppendBudget(max_writing_bytes=100), []
    BudgetWriter("a", budget, 100, order)
    BudgetWriter("b", budget, 80, order)
    BudgetWriter("c", budget, 30, order)
    BudgetWriter("d", budget, 10, order)
    assert order == ["a"]
    budget.written(100)
    assert order == ["a", "b"]
    BudgetWriter("e", budget, 1, order)
    budget.written(80)
    assert order == ["a", "b", "c", "d", "e"]


def test_an_append_above_the_limit_is_admitted_when_nothing_else_is_written():
    budget, order = AppendBudget(max_writing_bytes=100), []
    BudgetWriter("small", budget, 1, order)
    BudgetWriter("large", budget, 1000, order)
    assert order == ["small"]
    budget.written(1)
    assert order == ["small", "large"]


def test_the_budget_is_full_exactly_at_its_limit():
    budget = AppendBudget(max_queued_bytes=100)
    budget.hold(99)
    assert not budget.is_full
    budget.hold(1)
    assert budget.is_full
    budget.release(1)
    assert not budget.is_full


def test_the_default_budget_holds_several_groups():
    assert 2 * MAX_APPEND_GROUP_BYTES <= MAX_WRITING_BYTES <= MAX_QUEUED_APPEND_BYTES
