"""The same kills without a JVM: the sink's own processes, under a scheduler that does what Spark does."""

import random
import shutil
from collections import Counter
from contextlib import closing

import pytest
from exactly_once.disturbances import RandomDisturber, random_plot
from exactly_once.kill_matrix import KillMatrix
from exactly_once.kill_orders import Kill, KillFolder
from exactly_once.kill_stories import ONLY_AT_BROKERS, SHORT_FORM, Run, Story, random_story
from exactly_once.micro_batches import MicroBatches
from exactly_once.spark_process import QueryFailed

from spark_streamlog.exactly_once.steps import Step


def a_matrix(folder, **settings):
    return closing(KillMatrix(folder, KillFolder(folder / "kills"), **settings))


def test_a_kill_at_any_step_loses_and_repeats_no_row(tmp_path):
    with a_matrix(tmp_path) as matrix:
        batches = MicroBatches(matrix.kills.path)
        for story in SHORT_FORM:
            matrix.play(batches, story)
        batches.close()
        assert matrix.finish(batches) == []
        assert {step.name for step in Step} - ONLY_AT_BROKERS == {kill.split(" + ")[0] for kill in matrix.hits}


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("tells_checkpoint", [True, False], ids=["checkpoint known", "checkpoint unknown"])
def test_hundreds_of_kills_at_steps_lose_and_repeat_no_row(tmp_path, tells_checkpoint):
    rng, count, number = random.Random(tells_checkpoint), 0, 0
    while count < 300:
        number += 1
        with a_matrix(tmp_path / str(number)) as matrix:
            batches = MicroBatches(matrix.kills.path, tells_checkpoint=tells_checkpoint)
            while matrix.hits.total() < 60:
                matrix.play(batches, random_story(rng, tells_checkpoint=tells_checkpoint))
            batches.close()
            assert matrix.finish(batches) == []
            count += matrix.hits.total()


@pytest.mark.parametrize(
    ("rounds", "tells_checkpoint"),
    [
        (5, True),
        (4, False),
        pytest.param(300, True, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
        pytest.param(300, False, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
)
def test_kills_zombies_copied_checkpoints_and_two_drivers_lose_and_repeat_no_row(tmp_path, rounds, tells_checkpoint):
    rng = random.Random(rounds)
    killed = Counter()
    with a_matrix(tmp_path) as matrix:
        standing = []
        try:
            for _ in range(rounds):
                run_with(random_plot(rng), rng, matrix, standing, killed, tells_checkpoint=tells_checkpoint)
            end_all(standing)
        finally:
            for _, batches in standing:
                batches.kill()
        assert matrix.finish(MicroBatches(matrix.kills.path, tells_checkpoint=tells_checkpoint)) == []
    for step, count in sorted(killed.items()):
        print(f"{count} x {step}")
    assert killed.total() >= rounds / 2


def run_with(plot, rng, matrix, standing, killed, *, tells_checkpoint):
    """One run of the query, or two at once. Zombies of an earlier run may continue during this one."""
    matrix.add_batches(rng.randrange(1, 3))
    if plot.repeats_last_batch:
        matrix.forget_last_commit()
    matrix.kills.order(*plot.kills)
    older, drivers = list(standing), []
    for _ in range(1 + plot.has_second_driver):
        disturber = RandomDisturber(rng, plot, matrix.kills)
        batches = MicroBatches(
            matrix.kills.path, attempts_per_task=4, tells_checkpoint=tells_checkpoint, disturber=disturber
        )
        drivers.append((disturber, batches))
        standing.append((disturber, batches))
        matrix.begin_copy(batches)
    for disturber, _ in older:
        disturber.wake()
    for _, batches in drivers:
        matrix.end_copy(batches)  # it may fail: the next run goes on from there
    end_all(older)
    del standing[: len(older)]
    hits = {hit["pid"]: f"{hit['action']} at {hit.get('step', 'a write')}" for hit in matrix.kills.hits()}
    last_steps = {note["pid"]: note["step"] for note in matrix.kills.passed() if "step" in note}
    for disturber, _ in drivers:
        hits |= {pid: f"kill at any instant after {last_steps.get(pid, 'nothing')}" for pid in disturber.killed}
    killed.update(hits.values())


def end_all(standing):
    for _, batches in standing:
        batches.close()


def test_without_reading_the_decision_the_matrix_finds_duplicates(tmp_path):
    repeat = Story(
        name="repeat", runs=(Run(kills=(Kill(step="COMMITTED"),)), Run(fails=False, repeats_last_batch=True))
    )
    with a_matrix(tmp_path, forget_decisions=True) as matrix:
        batches = MicroBatches(matrix.kills.path)
        matrix.play(batches, repeat)
        problems = matrix.finish(batches)
    assert any("was there before" in problem for problem in problems), "the reader saw nothing"
    assert any(" came " in problem for problem in problems), "the copy is whole"


def test_an_outdated_copy_of_a_checkpoint_is_refused_and_writes_nothing(tmp_path):
    with a_matrix(tmp_path) as matrix:
        batches = MicroBatches(matrix.kills.path)
        matrix.add_batches(1)
        assert matrix.copy(batches) is None
        shutil.copytree(matrix.checkpoint, tmp_path / "copy")
        for _ in range(2):
            matrix.add_batches(1)
            assert matrix.copy(batches) is None
        with pytest.raises(QueryFailed, match="STREAMLOG_BATCH_NOT_NEXT"):
            batches.copy_stream(directory=matrix.place, checkpoint=str(tmp_path / "copy"), max_offsets=15)
        assert matrix.finish(batches) == []
