"""A process dies at any step: after the repeat every row is there once, and before it no part of a batch."""

from contextlib import suppress

import pytest
from support.spark.sink_actors import SinkKilled, steps, written
from support.spark.sink_worlds import embedded_world, in_memory_world, one_by_one_world, world

from broker_core.model.limits import MAX_TRANSACTION_TIMEOUT_MS
from broker_core.model.transaction_state import TransactionState
from spark_streamlog.errors import ConditionError
from spark_streamlog.exactly_once.decision import Decision, last_decision
from spark_streamlog.exactly_once.sink_driver import SinkDriver
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


def check_what_is_readable(world, *, was_killed=False):
    decided = last_decision(world.cluster, world.sink().identity)
    batch_count = 0 if decided is None else decided.batch + 1
    if world.cluster.ends_together or not was_killed:
        assert sorted(world.readable()) == rows_of(*range(batch_count))
        return
    # The last decided batch may not be readable whole yet; nothing of a later one is, and nothing twice.
    readable = world.readable()
    assert len(set(readable)) == len(readable)
    assert set(rows_of(*range(max(0, batch_count - 1)))) <= set(readable) <= set(rows_of(*range(batch_count)))


def run_phases(world):
    """Each phase; one that is killed is run again, as Spark does after a restart."""
    for phase in PHASES:
        try:
            phase(world)
        except SinkKilled:
            check_what_is_readable(world, was_killed=True)
            with suppress(ConditionError):  # a batch that is decided and followed by others is not repeated by Spark
                phase(world)
        check_what_is_readable(world)


@pytest.mark.parametrize("step", Step, ids=lambda step: step.value)
def test_a_kill_at_any_step_neither_loses_nor_duplicates_rows(step):
    for nth in range(1, 4):
        if step is not Step.DECIDED_ENDED:  # only where they are not ended together
            kill_and_repeat(in_memory_world(), step, nth=nth)
        kill_and_repeat(one_by_one_world(), step, nth=nth)


@pytest.mark.parametrize("step", [Step.TASK_FLUSHED, Step.DECISION_WRITTEN, Step.DECIDED], ids=lambda step: step.value)
def test_a_kill_with_a_directory_neither_loses_nor_duplicates_rows(embedded_world, step):
    kill_and_repeat(embedded_world, step, nth=1)


@pytest.mark.long
@pytest.mark.parametrize("nth", range(1, 11))
@pytest.mark.parametrize("step", Step, ids=lambda step: step.value)
def test_a_kill_at_any_step_and_time_neither_loses_nor_duplicates_rows(world, step, nth):
    kill_and_repeat(world, step, nth=nth)


def kill_and_repeat(world, step, *, nth):
    with steps(kill_at=step, nth=nth) as seen:
        run_phases(world)
    is_passed = step is not Step.DECIDED_ENDED or not world.cluster.ends_together
    assert seen.was_hit == is_passed or nth > 1, f"{step} was {'never' if is_passed else 'all the same'} reached"
    assert sorted(world.readable()) == rows_of(0, 1, 2, 3)
    assert not world.cluster.list_transactions(states=(TransactionState.ONGOING,))


def test_the_tested_phases_reach_every_step():
    with steps() as seen:
        run_phases(in_memory_world())
    assert set(seen.seen) == set(Step) - {Step.DECIDED_ENDED}
    with steps() as seen:
        run_phases(one_by_one_world())
    assert set(seen.seen) == set(Step)


def test_without_finishing_a_dead_drivers_decision_its_rows_would_be_lost(monkeypatch):
    world = one_by_one_world()
    monkeypatch.setattr(SinkDriver, "_finish_decided", lambda driver: None)
    monkeypatch.setattr(SinkDriver, "_decided_ids", lambda driver: frozenset())
    with steps(kill_at=Step.DECIDED_ENDED, nth=1) as seen, suppress(SinkKilled):
        a_plain_batch(world)
    assert seen.was_hit
    a_plain_batch(world)
    assert world.readable() == []
    assert last_decision(world.cluster, world.sink().identity).batch == 0


def a_world_whose_driver_died_after_the_decision():
    world = one_by_one_world()
    with steps(kill_at=Step.DECIDED_ENDED, nth=1) as seen, suppress(SinkKilled):
        a_plain_batch(world)
    assert seen.was_hit
    assert world.readable() == []
    return world


@pytest.mark.parametrize("knows_query", [True, False])
def test_the_next_driver_commits_the_transactions_that_a_dead_one_decided(knows_query):
    world = a_world_whose_driver_died_after_the_decision()
    world.sink().run_batch(0, *BATCHES[0], knows_query=knows_query)
    assert sorted(world.readable()) == rows_of(0)
    world.sink().run_batch(1, *BATCHES[1], knows_query=knows_query)
    assert sorted(world.readable()) == rows_of(0, 1)


def test_a_later_batch_finishes_the_previous_one_if_planning_does_not_know_the_query():
    world = a_world_whose_driver_died_after_the_decision()
    world.sink().run_batch(1, *BATCHES[1], knows_query=False)
    assert sorted(world.readable()) == rows_of(0, 1)


def test_a_decided_transaction_that_timed_out_is_reported_at_each_start():
    world = a_world_whose_driver_died_after_the_decision()
    world.pass_time(MAX_TRANSACTION_TIMEOUT_MS + 1)
    for _ in range(2):
        with pytest.raises(ConditionError, match="STREAMLOG_BATCH_INCOMPLETE") as caught:
            world.sink().run_batch(0, *BATCHES[0])
        assert "-0-0, " in str(caught.value)
    world.cluster.delete_group(world.sink().identity.decision_group)
    world.sink().run_batch(0, *BATCHES[0])
    assert sorted(world.readable()) == rows_of(0)


def test_leftovers_of_an_aborted_batch_do_not_affect_a_decided_one():
    world = a_world_whose_driver_died_after_the_decision()
    sink = world.sink()
    sink.driver.abandon([], driver=None)
    sink.driver.abandon([], driver=sink.driver.take_over())
    assert sorted(world.readable()) == rows_of(0)


@pytest.mark.parametrize("is_driver_known", [True, False])
@pytest.mark.parametrize("ended_count", [1, 2, 3])
def test_an_abort_after_a_commit_that_died_halfway_keeps_decided_transactions(is_driver_known, ended_count):
    world = one_by_one_world()
    tasks = [["a"], ["b"], ["c"]]
    sink = world.sink()
    driver = sink.driver.take_over() if is_driver_known else None
    opened = written(*(sink.write(rows, batch=0, driver=driver, task=number) for number, rows in enumerate(tasks)))
    with steps(kill_at=Step.DECIDED_ENDED, nth=ended_count) as seen, suppress(SinkKilled):
        sink.driver.decide(Decision(batch=0, task_count=3), opened, driver=driver)
    assert seen.was_hit
    sink.driver.abandon(opened, driver=driver)
    world.sink().run_batch(0, *tasks, knows_query=is_driver_known)
    assert sorted(world.readable()) == ["a", "b", "c"]


def test_an_abort_without_a_known_driver_ends_the_transactions_of_an_undecided_batch():
    world = one_by_one_world()
    sink = world.sink()
    opened = written(sink.write(["a"], batch=0, driver=None))
    sink.driver.abandon(opened, driver=None)
    assert not world.cluster.list_transactions(states=(TransactionState.ONGOING,))
    assert world.readable() == []


def test_a_repeated_commit_of_the_same_driver_ends_the_remaining_transactions():
    world = one_by_one_world()
    sink = world.sink()
    driver = sink.driver.take_over()
    opened = written(*(sink.write([row], batch=0, driver=driver, task=task) for task, row in enumerate("ab")))
    with steps(kill_at=Step.DECIDED_ENDED) as seen, suppress(SinkKilled):
        sink.driver.decide(Decision(batch=0, task_count=2), opened, driver=driver)
    assert seen.was_hit
    sink.driver.decide(Decision(batch=0, task_count=2), opened, driver=driver)
    assert sorted(world.readable()) == ["a", "b"]
