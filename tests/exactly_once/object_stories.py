"""The kill matrix on object storage: the kills of each run, as in `kill_stories`.

One conditional request decides a micro-batch there, and maintenance runs after some commits, in the same process.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from exactly_once.kill_orders import Kill, ObjectRequest
from exactly_once.kill_stories import Run, Story, a_story, task_kill

from spark_streamlog.exactly_once.steps import Step

COMMIT = "put_if_absent commits/"
LOOK = "get commits/"
UPLOAD = r"upload\.write data/"
FINISH = r"upload\.finish data/"
CHECKPOINT = "put_if_absent checkpoints/|put checkpoints/"
ROWS_READ = "get_ranges data/"

ONLY_WITH_TRANSACTIONS = frozenset(
    {
        *("TAKEN_OVER", "TASK_INITIALISED", "PARTITIONS_ADDED", "DECISION_WRITTEN", "DECIDED_ENDED"),
        *("LEFTOVER_ENDED", "FENCED"),
    }
)
STEPS = frozenset(step.name for step in Step) - ONLY_WITH_TRANSACTIONS
"""The steps that the sink passes on object storage."""

PLAN_STEPS = ("PLANNING", "PLANNED")
TASK_STEPS = ("TASK_STARTED", "TASK_MAY_WRITE", "TASK_APPENDED", "TASK_FLUSHED")
COMMIT_STEPS = ("COMMITTING", "DECIDED", "COMMITTED")
SOURCE_PROCESS = "python_streaming_source_runner"


def at_request(step: str, request: str, *, when: str = "before", nth: int = 1, **more) -> Kill:
    return Kill(step=step, objects=ObjectRequest(request=request, nth=nth, when=when), **more)


def in_task(step: str, request: str, *, when: str = "before", task: int = 0, attempt: int = 0) -> Kill:
    return task_kill(step, task=task, attempt=attempt, objects=ObjectRequest(request=request, when=when))


def in_task_twice(step: str, request: str, *, when: str, task: int = 0) -> tuple[Kill, ...]:
    return tuple(in_task(step, request, when=when, task=task, attempt=attempt) for attempt in (0, 1))


def _in_the_commit() -> Iterator[Story]:
    for name, kill in (
        ("before the request that decides", at_request("COMMITTING", COMMIT)),
        ("when the store has decided and nobody has read its answer", at_request("COMMITTING", COMMIT, when="after")),
    ):
        yield a_story(f"the driver dies {name}", Run(kills=(kill,)))


def _in_maintenance() -> Iterator[Story]:
    for name, request, when in (
        ("as it checks the image in", CHECKPOINT, "before"),
        ("with the image checked in", CHECKPOINT, "after"),
        ("as it uploads a merged object", UPLOAD, "after"),
        ("as it replaces merged ranges", COMMIT, "before"),
        ("with merged ranges replaced", COMMIT, "after"),
    ):
        run = Run(kills=(at_request("COMMITTED", request, when=when),), fails=None, maintains_always=True)
        yield a_story(f"maintenance behind a commit dies {name}", run)


OBJECT_STORIES = (
    *(a_story(f"the driver dies at {step}", Run(kills=(Kill(step=step),))) for step in PLAN_STEPS),
    a_story(
        "each of three tasks dies once",
        Run(
            kills=(
                task_kill("TASK_STARTED", task=0),
                task_kill("TASK_MAY_WRITE", task=1),
                in_task("TASK_MAY_WRITE", UPLOAD, task=2),
            ),
            fails=False,
        ),
    ),
    a_story(
        "each of three tasks dies once as it uploads",
        Run(
            kills=(
                in_task("TASK_MAY_WRITE", UPLOAD, when="after", task=0),
                in_task("TASK_MAY_WRITE", FINISH, task=1),
                in_task("TASK_MAY_WRITE", FINISH, when="after", task=2),
            ),
            fails=False,
        ),
    ),
    a_story(
        "both attempts die when all is uploaded, and so does the driver that gives up",
        Run(kills=(*in_task_twice("TASK_MAY_WRITE", FINISH, when="after"), Kill(step="ABORTING"))),
    ),
    a_story(
        "a task fails and dies when it has given up, another one dies with its rows gathered",
        Run(
            kills=(
                task_kill("TASK_APPENDED", action="raise"),
                task_kill("TASK_GAVE_UP"),
                task_kill("TASK_APPENDED", task=1),
                task_kill("TASK_FLUSHED", task=2),
            ),
            fails=False,
        ),
    ),
    a_story("the driver dies before the commit, and as it aborts", Run(kills=(Kill(step="COMMITTING"),))),
    *_in_the_commit(),
    a_story(
        "the driver dies when it has decided, and while it finds that out",
        Run(kills=(Kill(step="DECIDED"), Kill(step="ABORTED"))),
        Run(kills=(Kill(step="ALREADY_DECIDED"),)),
    ),
    a_story("the driver dies before Spark notes its commit", Run(kills=(Kill(step="COMMITTED"),))),
    a_story("Spark's note of the commit is lost", Run(fails=False, repeats_last_batch=True)),
    *_in_maintenance(),
)

DECIDED = a_story("the driver dies when it has decided", Run(kills=(Kill(step="DECIDED"),)))
SKIPPED = a_story(
    "a task dies as it skips what is decided, and the driver while it finds that out",
    Run(kills=(task_kill("TASK_SKIPS"), Kill(step="ALREADY_DECIDED"))),
)
"""Behind DECIDED, with a plan of a process that has opened the log since. A process of Spark lives on, and its plan may
be from before the decision: then tasks write, and the commit drops what they wrote.
"""

SOURCE_STORIES = (
    a_story(
        "the source dies as it looks for the end of its topic",
        Run(kills=(at_request("", LOOK, process=SOURCE_PROCESS, nth=2),)),
    ),
    a_story(
        "the source dies when it has found the end of its topic",
        Run(kills=(at_request("", LOOK, process=SOURCE_PROCESS, when="after", nth=2),)),
    ),
    a_story(
        "a task dies as it reads rows", Run(kills=(at_request("", ROWS_READ, process="pyspark.worker"),), fails=False)
    ),
    a_story(
        "a task dies with rows read",
        Run(kills=(at_request("", ROWS_READ, process="pyspark.worker", when="after"),), fails=False),
    ),
)
"""For a query through Spark: the process that reads the rows dies."""

CONTROLS = ("the driver dies before Spark notes its commit", "Spark's note of the commit is lost")


def random_object_story(rng: random.Random, *, are_plans_fresh: bool) -> Story:
    """A story of the long form: the step, its nth time, the victim's task and the request are random.

    `are_plans_fresh`: a new process makes each plan, so tasks skip a decided batch (see SKIPPED).
    """
    kinds = (_some_planning, _some_tasks, _some_task_twice, _some_commit, _some_commit, _some_maintenance, _forgotten)
    again = [Kill(step="ALREADY_DECIDED")]
    if are_plans_fresh:
        again.append(task_kill("TASK_SKIPS", task=rng.randrange(3)))
    return rng.choice(kinds)(rng, tuple(again))


def _some_planning(rng: random.Random, again: tuple[Kill, ...]) -> Story:
    return a_story(
        "the driver dies as it plans", Run(kills=(Kill(step=rng.choice(PLAN_STEPS), nth=rng.randrange(1, 3)),))
    )


def _task_death(rng: random.Random, task: int) -> Kill:
    if rng.random() < 0.5:
        return task_kill(rng.choice(TASK_STEPS), task=task)
    return in_task("TASK_MAY_WRITE", rng.choice((UPLOAD, FINISH)), when=_when(rng), task=task)


def _some_tasks(rng: random.Random, again: tuple[Kill, ...]) -> Story:
    kills = tuple(_task_death(rng, task) for task in rng.sample(range(3), rng.randrange(1, 4)))
    return a_story("some of three tasks die once", Run(kills=kills, fails=False))


def _some_task_twice(rng: random.Random, again: tuple[Kill, ...]) -> Story:
    """At the same step: a batch that was decided before never passes the later ones."""
    task = rng.randrange(3)
    first = _task_death(rng, task)
    second = replace(first, ids=task_kill(first.step, task=task, attempt=1).ids)
    return a_story("both attempts of a task die", Run(kills=(first, second)))


def _some_commit(rng: random.Random, again: tuple[Kill, ...]) -> Story:
    step, nth = rng.choice(COMMIT_STEPS), rng.randrange(1, 3)
    kill = Kill(step=step, nth=nth)
    if rng.random() < 0.6:
        step, kill = "COMMITTING", at_request("COMMITTING", COMMIT, when=_when(rng))
    runs = [Run(kills=(kill, *rng.choice(((), (Kill(step="ABORTING"),), (Kill(step="ABORTED"),)))))]
    is_decided = step != "COMMITTING" or (kill.objects is not None and _is_the_answer_lost(kill.objects))
    if is_decided and rng.random() < 0.4:
        runs.append(Run(kills=again))
    return a_story("the driver dies as it commits", *runs)


def _is_the_answer_lost(request: ObjectRequest) -> bool:
    return request.request == COMMIT and request.when == "after"


def _some_maintenance(rng: random.Random, again: tuple[Kill, ...]) -> Story:
    kill = at_request("COMMITTED", rng.choice((CHECKPOINT, UPLOAD, COMMIT)), when=_when(rng))
    return a_story("maintenance dies", Run(kills=(kill,), fails=None, maintains_always=True))


def _forgotten(rng: random.Random, again: tuple[Kill, ...]) -> Story:
    runs = (Run(kills=again, repeats_last_batch=True), Run(fails=False, repeats_last_batch=True))
    return a_story("Spark's note of the commit is lost", *rng.sample(runs, rng.randrange(1, 3)))


def _when(rng: random.Random) -> str:
    return rng.choice(("before", "after"))
