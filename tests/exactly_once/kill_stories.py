"""The kill matrix as data: what is killed where, run by run.

A story is a few runs of one streaming query, each with its kills. What a killed run leaves, the next run finds, of the
same story or of the next one: so every kill is followed by a repeated micro-batch. The Spark of the matrix tries a task
twice. A task that is killed once is tried again in the same run; killed twice, it fails its run.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from exactly_once.kill_orders import Kill, KillRequest, Write

TRANSACTION_LOG = r"/__transaction_state-0/\d+\.log$"
TRANSACTION_BOUNDS = r"/__transaction_state-0/partition\.bounds$"
OFFSETS_LOG = r"/__consumer_offsets-0/\d+\.log$"
TARGET_LOG = r"/out-\d+/\d+\.log$"
TARGET_BOUNDS = r"/out-\d+/partition\.bounds$"

PLAN_STEPS = ("PLANNING", "TAKEN_OVER", "PLANNED")
TASK_STEPS = (
    "TASK_STARTED", "TASK_MAY_WRITE", "TASK_INITIALISED", "PARTITIONS_ADDED", "TASK_APPENDED", "TASK_FLUSHED",
)  # fmt: skip
COMMIT_STEPS = ("COMMITTING", "DECISION_WRITTEN", "DECIDED", "COMMITTED")
ABORT_STEPS = ("ABORTING", "ABORTED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`fails`: the kills are too much for it; None: perhaps, if the process had answered before it died.
    `without_reader`: a reader would do what is to be killed. `maintains_always`: maintenance runs behind every commit.

    While a process waits at the first kill: `fenced_from_outside`, another driver takes over; `restarts_broker`, the
    broker is killed and started again.
    `repeats_last_batch`: before it, Spark's note of the last commit is deleted.
    """

    kills: tuple[Kill, ...] = ()
    fails: bool | None = True
    without_reader: bool = False
    fenced_from_outside: bool = False
    restarts_broker: bool = False
    repeats_last_batch: bool = False
    maintains_always: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    name: str
    runs: tuple[Run, ...]


def task_kill(step: str, *, task: int = 0, attempt: int = 0, **more) -> Kill:
    return Kill(step=step, ids={"transactional_id": rf"-{task}-{attempt}(-b)?$"}, **more)


def killed_twice(step: str, *, task: int = 0, write: Write | None = None) -> tuple[Kill, ...]:
    return tuple(task_kill(step, task=task, attempt=attempt, write=write) for attempt in (0, 1))


def kill_in_write(step: str, path: str, nth: int, when: str) -> Kill:
    return Kill(step=step, write=Write(path=path, nth=nth, when=when))


def kill_after_end(nth: int, **more) -> Kill:
    """The driver's own transaction, with the decision, is ended first, then those of the tasks."""
    return Kill(step="DECISION_WRITTEN", request=KillRequest(api="EndTxn", nth=nth, when="after"), **more)


def a_story(name: str, *runs: Run) -> Story:
    return Story(name=name, runs=runs)


SHORT_FORM = (
    *(a_story(f"the driver dies at {step}", Run(kills=(Kill(step=step),))) for step in PLAN_STEPS),
    a_story(
        "each of three tasks dies once",
        Run(
            kills=(
                task_kill("TASK_STARTED", task=0),
                task_kill("TASK_INITIALISED", task=1),
                task_kill("PARTITIONS_ADDED", task=2),
            ),
            fails=False,
        ),
    ),
    a_story("both attempts die before they write", Run(kills=killed_twice("TASK_MAY_WRITE"))),
    a_story(
        "both attempts die in the middle of a write",
        Run(kills=killed_twice("PARTITIONS_ADDED", task=1, write=Write(path=TARGET_LOG, when="torn"))),
    ),
    a_story(
        "both attempts die when all is written, and so does the driver that cleans up; the next one dies at it, too",
        Run(kills=(*killed_twice("TASK_FLUSHED"), Kill(step="ABORTING"))),
        Run(kills=(Kill(step="LEFTOVER_ENDED"),)),
    ),
    a_story(
        "a task fails and dies when it has given up, another one dies with its rows written",
        Run(
            kills=(
                task_kill("TASK_APPENDED", action="raise"),
                task_kill("TASK_GAVE_UP"),
                task_kill("TASK_APPENDED", task=1),
            ),
            fails=False,
        ),
    ),
    a_story("the driver dies before the decision", Run(kills=(Kill(step="COMMITTING"),))),
    a_story(
        "the driver dies with the decision written", Run(kills=(Kill(step="DECISION_WRITTEN"), Kill(step="ABORTED")))
    ),
    a_story(
        "the driver dies in the append that decides",
        Run(kills=(kill_in_write("DECISION_WRITTEN", TRANSACTION_LOG, 1, "torn"), Kill(step="ABORTING"))),
        Run(kills=(kill_in_write("DECISION_WRITTEN", TRANSACTION_BOUNDS, 1, "before"), Kill(step="ABORTING"))),
    ),
    a_story(
        "the driver dies between two markers",
        Run(
            kills=(kill_in_write("DECISION_WRITTEN", TARGET_LOG, 2, "torn"), Kill(step="ABORTING")), without_reader=True
        ),
    ),
    a_story(
        "the driver dies when all markers are written",
        Run(
            kills=(kill_in_write("DECISION_WRITTEN", TRANSACTION_LOG, 2, "before"), Kill(step="ABORTING")),
            without_reader=True,
        ),
    ),
    a_story(
        "the driver dies when it has decided, and while it finds that out",
        Run(kills=(Kill(step="DECIDED"),)),
        Run(kills=(task_kill("TASK_SKIPS"), Kill(step="ALREADY_DECIDED"))),
    ),
    a_story("the driver dies before Spark notes its commit", Run(kills=(Kill(step="COMMITTED"),))),
    a_story("Spark's note of the commit is lost", Run(fails=False, repeats_last_batch=True)),
    a_story(
        "another driver takes over while this one commits",
        Run(
            kills=(Kill(step="COMMITTING", action="wait"), Kill(step="FENCED")),
            fenced_from_outside=True,
        ),
    ),
)


ONLY_AT_BROKERS = frozenset({"DECIDED_ENDED"})
"""Steps that a directory never reaches: it ends all transactions of a batch at once."""


def _is_without_writes(story: Story) -> bool:
    return all(kill.write is None for run in story.runs for kill in run.kills)


ONLY_WITH_BROKERS = (
    *(
        a_story(f"the driver dies when {nth} of four transactions are ended", Run(kills=(kill_after_end(nth),)))
        for nth in (1, 2, 3, 4)
    ),
    a_story(
        "the driver dies when it has decided, and the next one while it ends what was decided",
        Run(kills=(kill_after_end(1), Kill(step="ABORTING"))),
        Run(kills=(Kill(step="DECIDED_ENDED"),)),
        Run(kills=(Kill(step="DECIDED_ENDED", nth=2),)),
    ),
)
"""A directory ends the transactions of a batch at once."""

AT_BROKERS = (*filter(_is_without_writes, SHORT_FORM), *ONLY_WITH_BROKERS)
"""For a log at a broker: the sink's processes write no file."""

BROKER_RESTARTS = (
    a_story(
        "the broker dies while tasks write",
        Run(kills=(task_kill("PARTITIONS_ADDED", action="wait"),), fails=False, restarts_broker=True),
        Run(kills=(task_kill("TASK_APPENDED", task=1, action="wait"),), fails=False, restarts_broker=True),
    ),
    a_story(
        "the broker dies before the decision, and between two ends",
        Run(kills=(Kill(step="DECISION_WRITTEN", action="wait"),), fails=False, restarts_broker=True),
        Run(kills=(kill_after_end(2, action="wait"),), fails=False, restarts_broker=True),
    ),
)


def random_story(rng: random.Random, *, tells_checkpoint: bool = True) -> Story:
    """One of the long form: the step, the time it comes by, the victim's task and the write are thrown.

    Where it is not told the checkpoint, planning does not know whose batch it is and passes no step; nor does an abort
    where no task has returned.
    """
    kinds = (_in_tasks, _in_the_commit, _after_the_decision, _forgotten)
    if not tells_checkpoint:
        return rng.choice((_in_a_task_twice, *kinds))(rng)
    return rng.choice((_in_planning, _in_a_task_twice_and_perhaps_in_the_abort, *kinds))(rng)


def _in_planning(rng: random.Random) -> Story:
    step, nth = rng.choice(PLAN_STEPS), rng.randrange(1, 3)
    kill = Kill(step=step, nth=nth)
    if step == "PLANNING" and rng.random() < 0.4:
        path = rng.choice((TRANSACTION_LOG, TRANSACTION_BOUNDS))
        kill = kill_in_write(step, path, 1, rng.choice(("before", "torn", "after")))
    return a_story("the driver dies as it plans", Run(kills=(kill,)))


def _in_tasks(rng: random.Random) -> Story:
    kills = tuple(task_kill(_step, task=task) for task, _step in enumerate(rng.sample(TASK_STEPS, 3)))
    return a_story("each of three tasks dies once", Run(kills=kills, fails=False))


def _in_a_task_twice(rng: random.Random) -> Story:
    step, task = rng.choice(TASK_STEPS), rng.randrange(3)
    write = None
    if rng.random() < 0.5:
        step, path = rng.choice(
            (
                ("TASK_MAY_WRITE", TRANSACTION_LOG),
                ("TASK_INITIALISED", TRANSACTION_LOG),
                ("TASK_INITIALISED", TRANSACTION_BOUNDS),
                ("PARTITIONS_ADDED", TARGET_LOG),
                ("PARTITIONS_ADDED", TARGET_BOUNDS),
            )
        )
        write = Write(path=path, when=rng.choice(("before", "torn", "after")))
    return a_story("both attempts of a task die", Run(kills=killed_twice(step, task=task, write=write)))


def _in_a_task_twice_and_perhaps_in_the_abort(rng: random.Random) -> Story:
    run = _in_a_task_twice(rng).runs[0]
    return a_story("both attempts of a task die", Run(kills=(*run.kills, *_maybe_in_the_abort(rng))))


def _in_the_commit(rng: random.Random) -> Story:
    step = rng.choice(COMMIT_STEPS)
    kill = Kill(step=step, nth=rng.randrange(1, 3))
    if rng.random() < 0.5:
        step, path = rng.choice(
            (
                ("COMMITTING", TRANSACTION_LOG),
                ("COMMITTING", OFFSETS_LOG),
                ("DECISION_WRITTEN", TRANSACTION_LOG),
                ("DECISION_WRITTEN", TRANSACTION_BOUNDS),
            )
        )
        kill = kill_in_write(step, path, 1, rng.choice(("before", "torn", "after")))
    return a_story("the driver dies as it commits", Run(kills=(kill, *_maybe_in_the_abort(rng))))


def _after_the_decision(rng: random.Random) -> Story:
    path, nth = rng.choice(
        ((OFFSETS_LOG, 1), (TARGET_LOG, 1), (TARGET_LOG, 2), (TARGET_BOUNDS, 2), (TRANSACTION_LOG, 2))
    )
    kill = kill_in_write("DECISION_WRITTEN", path, nth, rng.choice(("before", "torn", "after")))
    runs = [Run(kills=(kill, *_maybe_in_the_abort(rng)), without_reader=True)]
    if rng.random() < 0.4:
        runs.append(Run(kills=(Kill(step="ALREADY_DECIDED"), task_kill("TASK_SKIPS", task=rng.randrange(3)))))
    return a_story("the driver dies after the decision", *runs)


def _forgotten(rng: random.Random) -> Story:
    again = Run(kills=(Kill(step="ALREADY_DECIDED"), task_kill("TASK_SKIPS", task=rng.randrange(3))))
    runs = (Run(kills=again.kills, repeats_last_batch=True), Run(fails=False, repeats_last_batch=True))
    return a_story("Spark's note of the commit is lost", *rng.sample(runs, rng.randrange(1, 3)))


def _maybe_in_the_abort(rng: random.Random) -> tuple[Kill, ...]:
    """If the run's first kill fails it, Spark calls abort. With a second kill there, nothing is cleaned up."""
    return rng.choice(((), (Kill(step="ABORTING"),), (Kill(step="ABORTED"),)))
