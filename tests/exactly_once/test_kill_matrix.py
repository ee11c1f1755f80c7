"""SIGKILL at every step of the exactly-once sink, under a streaming query: each row is read once, in order."""

import random
from contextlib import closing

import pytest
from exactly_once.kill_matrix import KillMatrix
from exactly_once.kill_stories import ONLY_AT_BROKERS, SHORT_FORM, random_story

from spark_streamlog.exactly_once.steps import Step

LONG_KILLS = 300
KILLS_OF_ONE_QUERY = 60
CONTROLS = ("the driver dies before Spark notes its commit", "Spark's note of the commit is lost")


def a_matrix(folder, kills, **settings):
    folder.mkdir(exist_ok=True)
    return closing(KillMatrix(folder, kills, **settings))


@pytest.mark.long
def test_a_kill_at_any_step_loses_and_repeats_no_row(spark, tmp_path, kills):
    with a_matrix(tmp_path, kills) as matrix:
        for story in SHORT_FORM:
            matrix.play(spark, story)
        assert matrix.finish(spark) == []
        assert {step.name for step in Step} - ONLY_AT_BROKERS == {kill.split(" + ")[0] for kill in matrix.hits}, (
            "a step was never hit"
        )


@pytest.mark.long
def test_without_reading_the_decision_the_matrix_finds_duplicates(spark, tmp_path, kills):
    # The negative control: what the matrix cannot find it cannot show to be absent.
    with a_matrix(tmp_path, kills, forget_decisions=True) as matrix:
        for story in SHORT_FORM:
            if story.name in CONTROLS:
                matrix.play(spark, story)
        problems = matrix.finish(spark)
    assert any("was there before" in problem for problem in problems), "the reader saw nothing"
    assert any(" came " in problem for problem in problems), "the copy is whole"


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_hundreds_of_kills_lose_and_repeat_no_row(spark, tmp_path, kills):
    rng = random.Random(4)
    count = 0
    while count < LONG_KILLS:
        with a_matrix(tmp_path / f"from-{count}", kills) as matrix:
            while matrix.hits.total() < KILLS_OF_ONE_QUERY:
                matrix.play(spark, random_story(rng))
            assert matrix.finish(spark) == []
            count += matrix.hits.total()
    print(f"{count} kills")
