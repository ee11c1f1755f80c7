"""Whoever dies, at whatever step: after the repeat every row is there once, and before it no part of a batch is."""

from contextlib import suppress

import pytest
from sink_actors import Killed, steps, written
from sink_worlds import embedded_world, in_memory_world, world

from broker_core.model.transaction_state import TransactionState
from spark_streamlog.errors import ConditionError
from spark_streamlog.exactly_once.decision import Decision, last_decision
from spark_streamlog.exactly_once.steps import Step

__all__ = ["embedded_world", "world"]

BATCHES = [[["0a", "0b", "0c"], ["0d"]], [["1a"], ["1b"]], [["2a", "2b"], []], [["3a"], ["3b"]]]


def a_plain_batch(world):
    world.sink().run_batch(0, *BATCHES[0])


def the_same_batch_repeated(world):
    world.sink().run_batch(0, *BATCHES[0])


def a_batch_that_fails_and_is_repeated(world):
    sink = world.sink()
    driver = sink.driver.take_over()

    def fail(transaction):
        raise ZeroDivisionError

    told = sink.write(BATCHES[1][0], batch=1, driver=driver)
    with suppress(ZeroDivisionError):
        sink.write(BATCHES[1][1], batch=1, driver=driver, task=1, after_rows=fail)
    sink.driver.abandon(written(told), driver=driver)
    world.sink().run_batch(1, *BATCHES[1])


def a_batch_of_two_drivers(world):
    older = world.sink()
    driver = older.driver.take_over()
    opened = written(*(older.write(rows, batch=2, driver=driver, task=n) for n, rows in enumerate(BATCHES[2])))
    world.sink().run_batch(2, *BATCHES[2])
    with suppress(ConditionError):
        older.driver.decide(Decision(batch=2), opened, driver=driver)
    older.driver.abandon(opened, driver=driver)


def a_batch_with_speculation(world):
    sink = world.sink()
    driver = sink.driver.take_over()
    opened = written(*(sink.write(rows, batch=3, driver=driver, task=n) for n, rows in enumerate(BATCHES[3])))
    sink.write(BATCHES[3][1], batch=3, driver=driver, task=1, attempt=1)
    sink.driver.decide(Decision(batch=3), opened, driver=driver)


PHASES = (
    a_plain_batch,
    the_same_batch_repeated,
    a_batch_that_fails_and_is_repeated,
    a_batch_of_two_drivers,
    a_batch_with_speculation,
)


def rows_of(*batches):
    return sorted(row for batch in batches for rows in BATCHES[batch] for row in rows)


def check_what_is_readable(world):
    decided = last_decision(world.cluster, world.sink().identity)
    assert sorted(world.readable()) == rows_of(*range(0 if decided is None else decided.batch + 1))


def run_phases(world):
    """Each phase; one that is killed is run again, as Spark does after a restart."""
    for phase in PHASES:
        try:
            phase(world)
        except Killed:
            check_what_is_readable(world)
            with suppress(ConditionError):  # a batch that is decided and followed by others is not repeated by Spark
                phase(world)
        check_what_is_readable(world)


@pytest.mark.parametrize("step", Step, ids=lambda step: step.value)
def test_a_kill_at_any_step_neither_loses_nor_doubles_rows(step):
    for nth in range(1, 4):
        kill_and_repeat(in_memory_world(), step, nth=nth)


@pytest.mark.parametrize("step", [Step.TASK_FLUSHED, Step.DECISION_WRITTEN, Step.DECIDED], ids=lambda step: step.value)
def test_a_kill_in_a_directory_neither_loses_nor_doubles_rows(embedded_world, step):
    kill_and_repeat(embedded_world, step, nth=1)


@pytest.mark.long
@pytest.mark.parametrize("nth", range(1, 11))
@pytest.mark.parametrize("step", Step, ids=lambda step: step.value)
def test_a_kill_at_any_step_and_time_neither_loses_nor_doubles_rows(world, step, nth):
    kill_and_repeat(world, step, nth=nth)


def kill_and_repeat(world, step, *, nth):
    with steps(kill_at=step, nth=nth) as seen:
        run_phases(world)
    assert seen.was_hit or nth > 1, f"{step} was never reached"
    assert sorted(world.readable()) == rows_of(0, 1, 2, 3)
    assert not world.cluster.list_transactions(states=(TransactionState.ONGOING,))


def test_the_phases_pass_every_step():
    with steps() as seen:
        run_phases(in_memory_world())
    assert set(seen.seen) == set(Step)
