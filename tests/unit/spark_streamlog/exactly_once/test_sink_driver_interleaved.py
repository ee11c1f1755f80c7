"""Drivers, tasks and their zombies in any order, with kills and timeouts: what is decided is there once, nothing else.

A drawn schedule runs a query of a few batches as Spark would: a driver plans, starts an attempt per task, repeats those
that fail, starts speculative ones, decides, notes the commit in the checkpoint. At any call another actor may
continue: an attempt that Spark does not wait for any more, or a second driver of the query. Any of them may be killed
at any call, and time may pass beyond the timeout of what is open.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.runs.examples import examples
from support.spark.interleaved_actors import Actor, ActorKilled, PausingCluster
from support.spark.sink_actors import Sink
from support.spark.sink_worlds import QUERY_ID, in_memory_world, one_by_one_world

from broker_core.model.transaction_state import TransactionState
from spark_streamlog.errors import ConditionError
from spark_streamlog.exactly_once import decision as decision_module
from spark_streamlog.exactly_once.decision import Decision, last_decision
from spark_streamlog.exactly_once.sink_identity import query_identity

TASK_ROWS = [["a", "b", "c"], ["d"], []]
BATCH_COUNT = 3
TIMEOUT_MS = 60_000
ATTEMPTS_PER_TASK = 3
MOST_DRIVERS = 5
ENDING_CALLS = {"end_transaction", "init_producer"}
"""Only they change what is readable."""

ALLOWED = {
    "STREAMLOG_DRIVER_FENCED",
    "STREAMLOG_TRANSACTION_FENCED",
    "STREAMLOG_TRANSACTION_EXPIRED",
    "STREAMLOG_BATCH_NOT_NEXT",
    "TASKS_FAILED",
    "CONCURRENT_DRIVERS",
}


def rows_of_batch(batch):
    return [[f"{batch}{row}" for row in rows] for rows in TASK_ROWS]


class Simulation:
    """`dice` decide who goes on; `knows_query`: planning can take over (the checkpoint is local); `spark_notices`: its
    checkpoint does not take a second commit of one batch; `ends_together`: as in a directory, else as at a broker.

    At a broker three things can come between the decision of a batch and its last end that make it incomplete: a
    timeout, a second attempt with the same number, and a second driver that planning could not fence. They are left out
    there.
    """

    def __init__(self, dice, *, knows_query, spark_notices, ends_together=True):
        self.dice = dice
        self.knows_query = knows_query or not ends_together
        self.spark_notices = spark_notices
        self.ends_together = ends_together
        self.world = in_memory_world() if ends_together else one_by_one_world()
        self.world.cluster.between_ends = self.pause_between_ends
        self.identity = query_identity(QUERY_ID)
        self.committed = -1
        self.actors: list[Actor] = []
        self.driver_count = 0
        self.kills_left = dice.randint(0, 6)

    # -- what Spark does --

    def start_driver(self):
        self.driver_count += 1
        return self.start(f"driver {self.driver_count}", self.run_query)

    def start(self, name, body):
        actor = Actor(name, body)
        self.actors.append(actor)
        return actor

    def pause_between_ends(self):
        for actor in self.actors:
            if actor.is_running:
                actor.pause()

    def sink_of(self, actor):
        return Sink(
            cluster=PausingCluster(self.world.cluster, actor),
            identity=self.identity,
            now_ms=self.world.clock.now_ms,
            timeout_ms=TIMEOUT_MS,
        )

    def run_query(self, actor):
        batch = self.committed + 1
        while batch < BATCH_COUNT:
            self.run_batch(actor, batch)
            actor.pause()
            if self.dice.randint(0, 3) == 0 and self.driver_count < MOST_DRIVERS:
                raise ActorKilled("before Spark has noted the commit")
            if self.spark_notices and self.committed >= batch:
                raise ConditionError("two drivers", condition="CONCURRENT_DRIVERS")
            self.committed = max(self.committed, batch)
            batch += 1

    def run_batch(self, actor, batch):
        sink = self.sink_of(actor)
        driver = sink.driver.take_over() if self.knows_query else None
        results: dict[int, list] = {}
        attempts: dict[int, list[Actor]] = {}
        for task in range(len(TASK_ROWS)):
            for _ in range(1 + self.dice.choice([0, 0, 0, 1])):  # one of them is speculative
                self.start_attempt(batch, task, driver, attempts, results)
        while len(results) < len(TASK_ROWS):
            actor.pause(until=lambda: self.is_answer_due(attempts, results))
            for task, started in attempts.items():
                if task not in results and all(attempt.is_done for attempt in started):
                    if len(started) >= ATTEMPTS_PER_TASK:
                        self.abandon(sink, results, driver)
                        raise ConditionError("a task failed too often", condition="TASKS_FAILED")
                    self.start_attempt(batch, task, driver, attempts, results)
        opened = [one for found in results.values() for one in found]
        try:
            sink.driver.decide(Decision(batch=batch, task_count=len(TASK_ROWS)), opened, driver=driver)
        except ConditionError:
            self.abandon(sink, results, driver)
            raise

    def abandon(self, sink, results, driver):
        sink.driver.abandon([one for found in results.values() for one in found], driver=driver)

    def is_answer_due(self, attempts, results):
        return len(results) == len(TASK_ROWS) or any(
            task not in results and all(attempt.is_done for attempt in started) for task, started in attempts.items()
        )

    def start_attempt(self, batch, task, driver, attempts, results):
        started = attempts.setdefault(task, [])
        # A stage that is run again counts its attempts from 0: then two run under one transactional id.
        number = len(started) if self.dice.randint(0, 4) or not self.ends_together else 0

        def run(attempt_actor):
            opened = self.sink_of(attempt_actor).write(
                rows_of_batch(batch)[task], batch=batch, driver=driver, task=task, attempt=number
            )
            # The first to finish counts; what a later one did is ignored.
            results.setdefault(task, [] if opened is None else [opened])

        started.append(self.start(f"batch {batch} task {task} attempt {number}", run))

    # -- the schedule --

    def run(self):
        self.start_driver()
        for _ in range(2000):
            ready = [actor for actor in self.actors if actor.is_ready]
            if not ready:
                if self.committed == BATCH_COUNT - 1 or self.driver_count >= MOST_DRIVERS:
                    break
                self.start_driver()
                continue
            actor = self.dice.choice(ready)
            event = self.dice.randint(0, 40)
            if event == 0 and self.kills_left:
                self.kills_left -= 1
                actor.kill()
            elif event == 1 and self.driver_count < MOST_DRIVERS:
                self.start_driver()
            elif event == 2 and self.ends_together:
                self.world.pass_time(TIMEOUT_MS // 2)
            else:
                actor.go_on()
                if actor.last_call in ENDING_CALLS:
                    self.check()
        self.finish()

    def finish(self):
        for actor in self.actors:
            while not actor.is_done:
                actor.kill()
        for actor in self.actors:
            if actor.error is not None and getattr(actor.error, "condition", None) not in ALLOWED:
                raise actor.error
        self.check()
        for batch in range(self.committed + 1, BATCH_COUNT):
            # A driver that noted an older commit than the newest decision is one that Spark would not restart.
            decided = last_decision(self.world.cluster, self.identity)
            if decided is None or decided.batch <= batch:
                self.world.sink().run_batch(batch, *rows_of_batch(batch))
        if self.ends_together:
            # What a fenced driver could not abort any more blocks readers until it has timed out.
            self.world.pass_time(TIMEOUT_MS + 1)
        self.check()
        assert Counter(self.world.readable()) == Counter(
            row for batch in range(BATCH_COUNT) for rows in rows_of_batch(batch) for row in rows
        )

    def check(self):
        """No row of an undecided batch, no row twice, each task's rows in order; and all rows of decided batches,
        unless a transaction that is still open blocks readers.
        """
        # The look at the transactions comes first: it ends what has timed out.
        is_blocked = bool(self.world.cluster.list_transactions(states=(TransactionState.ONGOING,)))
        readable = self.world.readable()
        decided = last_decision(self.world.cluster, self.identity)
        batches = range(0 if decided is None else decided.batch + 1)
        expected = [rows for batch in batches for rows in rows_of_batch(batch)]
        assert Counter(readable) <= Counter(row for rows in expected for row in rows)
        for rows in expected:
            found = [row for row in readable if row in rows]
            assert found == rows[: len(found)]
            assert is_blocked or found == rows


def simulate(seed, knows_query, spark_notices, ends_together=True):
    Simulation(Random(seed), knows_query=knows_query, spark_notices=spark_notices, ends_together=ends_together).run()


a_schedule = given(st.integers(0, 2**32), st.booleans(), st.booleans(), st.booleans())


@a_schedule
@example(61, False, False, True)  # a zombie's transaction blocked readers at the end
@examples(25)
def test_in_any_interleaving_only_decided_rows_exist_once(seed, knows_query, spark_notices, ends_together):
    simulate(seed, knows_query, spark_notices, ends_together)


@pytest.mark.long
@a_schedule
@settings(max_examples=3000)
def test_in_many_interleavings_only_decided_rows_exist_once(seed, knows_query, spark_notices, ends_together):
    simulate(seed, knows_query, spark_notices, ends_together)


def test_without_reading_the_decision_some_interleaving_duplicates_rows(monkeypatch):
    monkeypatch.setattr(decision_module, "last_decision", lambda *_: None)
    with pytest.raises(AssertionError):
        for seed in range(100):
            simulate(seed, knows_query=True, spark_notices=True)
