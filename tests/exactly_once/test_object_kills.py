"""SIGKILL around a streaming query from an object log to an object log, through Spark, on a real S3 server.

All of it is for the long profile, as the other kills through Spark: `test_object_process_kills` plays the same stories
without a JVM by default.
"""

from contextlib import closing

import pytest
from exactly_once.kill_matrix import KillMatrix
from exactly_once.kill_orders import Kill
from exactly_once.kill_stories import Run, a_story
from exactly_once.object_stories import (
    COMMIT,
    CONTROLS,
    DECIDED,
    FINISH,
    OBJECT_STORIES,
    SKIPPED,
    SOURCE_STORIES,
    STEPS,
    at_request,
    in_task,
)
from exactly_once.watching_reader import WatchingReader

SLICE = (
    a_story(
        "a task dies with its object uploaded, then the driver with the batch committed and the answer unread",
        Run(
            kills=(
                in_task("TASK_MAY_WRITE", FINISH, when="after", task=1),
                at_request("COMMITTING", COMMIT, when="after"),
            )
        ),
    ),
    a_story(
        "the driver dies while it finds that out, and then before the next commit",
        # Spark's planner may have a plan from before the decision: then tasks write what the commit drops.
        Run(kills=(Kill(step="ALREADY_DECIDED"),)),
        Run(kills=(at_request("COMMITTING", COMMIT),)),
    ),
    SOURCE_STORIES[0],
    SOURCE_STORIES[3],
)


def a_matrix(folder, kills, objects, **settings):
    return closing(KillMatrix(folder, kills, objects=objects, **settings))


@pytest.mark.long
def test_kills_of_tasks_driver_and_source_lose_and_repeat_no_row(spark, tmp_path, kills, objects):
    with a_matrix(tmp_path, kills, objects) as matrix:
        for story in SLICE:
            matrix.play(spark, story)
        assert matrix.finish(spark) == []
        assert matrix.hits.total() == 6


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_kill_at_any_step_and_request_loses_and_repeats_no_row(sparks, tmp_path, kills, objects):
    spark = sparks.current()
    with a_matrix(tmp_path, kills, objects) as matrix, closing(sparks.another()) as other:
        for story in (*OBJECT_STORIES, *SOURCE_STORIES, DECIDED):
            matrix.play(spark, story)
        matrix.play(other, SKIPPED)
        assert matrix.finish(other) == []
        assert {kill.split(" + ")[0] for kill in matrix.hits} - {""} == STEPS, "a step was never hit"


@pytest.mark.long
def test_without_a_look_at_the_version_the_matrix_finds_rows_twice(spark, tmp_path, kills, objects):
    with a_matrix(tmp_path, kills, objects, forget_decisions=True) as matrix:
        for story in OBJECT_STORIES:
            if story.name in CONTROLS:
                matrix.play(spark, story)
        problems = matrix.finish(spark)
    assert any("was there before" in problem for problem in problems), "the reader saw nothing"
    assert any(" came " in problem for problem in problems), "the copy is whole"


@pytest.mark.long
def test_at_least_once_delivery_is_told_from_exactly_once(spark, tmp_path, kills, objects):
    with a_matrix(tmp_path, kills, objects, arguments={"delivery": "at-least-once"}) as matrix:
        matrix.add_batches(2)
        assert matrix.copy(spark) is None
        matrix.forget_last_commit()
        problems = matrix.finish(spark)
    assert any("a look has found" in problem for problem in problems), "tasks became visible together"
    assert any(" came " in problem for problem in problems), "the copy is whole"


@pytest.mark.long
def test_two_drivers_of_one_query_at_once_commit_each_batch_once(sparks, tmp_path, kills, objects):
    other, spark = sparks.another(), sparks.current()
    try:
        with a_matrix(tmp_path, kills, objects) as matrix:
            copied = matrix.be_overtaken(spark, other)
            # Its tasks have written all rows of a batch that the other one has committed, and the one behind it.
            failure = matrix.end_copy(spark)
            assert failure is not None and "STREAMLOG_BATCH_NOT_NEXT" in failure
            matrix.checkpoint = copied
            assert matrix.finish(other) == []
    finally:
        other.close()


@pytest.mark.long
def test_foreach_batch_with_the_pair_copies_each_row_once(spark, tmp_path, kills, objects):
    with a_matrix(tmp_path, kills, objects, query="copy_by_foreach_batch") as matrix:
        matrix.watch(WatchingReader(matrix.place, matrix.checkpoint, decision_group="streamlog-sink-copier"))
        matrix.die_at_each(
            spark,
            "foreachBatch",
            Kill(step="PLANNED"),
            Kill(step="COMMITTING"),
            at_request("COMMITTING", COMMIT),
            at_request("COMMITTING", COMMIT, when="after"),
            Kill(step="DECIDED"),
            Kill(step="COMMITTED"),
        )
        matrix.kills.order()
        assert matrix.copy(spark) is None
        matrix.forget_last_commit()
        assert matrix.finish(spark) == []
