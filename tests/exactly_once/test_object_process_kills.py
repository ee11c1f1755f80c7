"""SIGKILL around the sink on object storage, without a JVM: processes of the sink under a scheduler like Spark's."""

import random
from contextlib import closing

import pytest
from exactly_once.kill_matrix import KillMatrix
from exactly_once.kill_orders import KillFolder
from exactly_once.log_place import Objects
from exactly_once.micro_batches import MicroBatches
from exactly_once.object_stories import CONTROLS, DECIDED, OBJECT_STORIES, SKIPPED, STEPS, random_object_story


def a_matrix(folder, **settings):
    objects = Objects(f"objects://{folder}/shared/log")
    return closing(KillMatrix(folder, KillFolder(folder / "kills"), objects=objects, **settings))


def test_a_kill_at_any_step_and_request_loses_and_repeats_no_row(tmp_path):
    with a_matrix(tmp_path) as matrix:
        batches = MicroBatches(matrix.kills.path)
        for story in (*OBJECT_STORIES, DECIDED, SKIPPED):
            matrix.play(batches, story)
        batches.close()
        assert matrix.finish(batches) == []
        assert {kill.split(" + ")[0] for kill in matrix.hits} == STEPS, "a step was never hit"


def test_without_a_look_at_the_version_the_matrix_finds_rows_twice(tmp_path):
    # The negative control: what the matrix cannot find it cannot show to be absent.
    with a_matrix(tmp_path, forget_decisions=True) as matrix:
        batches = MicroBatches(matrix.kills.path)
        for story in OBJECT_STORIES:
            if story.name in CONTROLS:
                matrix.play(batches, story)
        problems = matrix.finish(batches)
    assert any("was there before" in problem for problem in problems), "the reader saw nothing"
    assert any(" came " in problem for problem in problems), "the copy is whole"


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_hundreds_of_kills_at_steps_and_requests_lose_and_repeat_no_row(tmp_path):
    rng, count, number = random.Random(6), 0, 0
    while count < 300:
        number += 1
        with a_matrix(tmp_path / str(number)) as matrix:
            batches = MicroBatches(matrix.kills.path)
            while matrix.hits.total() < 60:
                matrix.play(batches, random_object_story(rng, are_plans_fresh=True))
            batches.close()
            assert matrix.finish(batches) == []
            count += matrix.hits.total()
    print(f"{count} kills")
