"""The kill matrix with its log at a broker: the sink's processes die at every step, and so does the broker."""

import random
import time
from contextlib import contextmanager

import pytest
from exactly_once.kill_matrix import KillMatrix
from exactly_once.kill_orders import KillFolder
from exactly_once.kill_stories import AT_BROKERS, BROKER_RESTARTS, ONLY_AT_BROKERS, ONLY_WITH_BROKERS
from exactly_once.micro_batches import MicroBatches
from support.brokers.either_broker import EITHER_BROKER, running_broker

from spark_streamlog.exactly_once.steps import Step

pytestmark = pytest.mark.timeout(1200)


@contextmanager
def a_matrix(kind, folder):
    with running_broker(kind, folder / "node") as broker:
        matrix = KillMatrix(folder, KillFolder(folder / "kills"), broker=broker)
        try:
            yield broker, matrix
        finally:
            matrix.close()


@pytest.mark.parametrize("kind", EITHER_BROKER)
def test_a_kill_while_transactions_are_ended_loses_and_repeats_no_row_at_a_broker(kind, tmp_path):
    with a_matrix(kind, tmp_path) as (_, matrix):
        batches = MicroBatches(matrix.kills.path)
        for story in ONLY_WITH_BROKERS:
            matrix.play(batches, story)
        batches.close()
        assert matrix.finish(batches) == []
        assert matrix.hits.keys() >= {f"DECISION_WRITTEN + after request {nth} of EndTxn" for nth in (1, 2, 3, 4)}
        assert matrix.hits.keys() >= ONLY_AT_BROKERS


@pytest.mark.long
@pytest.mark.parametrize("kind", EITHER_BROKER)
def test_a_kill_at_any_step_loses_and_repeats_no_row_at_a_broker(kind, tmp_path):
    with a_matrix(kind, tmp_path) as (_, matrix):
        batches = MicroBatches(matrix.kills.path)
        for story in AT_BROKERS:
            matrix.play(batches, story)
        batches.close()
        assert matrix.finish(batches) == []
        assert {step.name for step in Step} <= matrix.hits.keys()
        assert matrix.hits.keys() >= {f"DECISION_WRITTEN + after request {nth} of EndTxn" for nth in (1, 2, 3, 4)}


@pytest.mark.parametrize("stories", [BROKER_RESTARTS[1:], pytest.param(BROKER_RESTARTS, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", EITHER_BROKER)
def test_a_broker_killed_during_a_batch_loses_and_repeats_no_row(kind, tmp_path, stories):
    with a_matrix(kind, tmp_path) as (_, matrix):
        batches = MicroBatches(matrix.kills.path)
        for story in stories:
            matrix.play(batches, story)
        batches.close()
        assert matrix.finish(batches) == []
        assert len(matrix.broker_kills) == sum(len(story.runs) for story in stories)


@pytest.mark.long
@pytest.mark.parametrize("kind", EITHER_BROKER)
def test_a_broker_killed_at_any_instant_loses_and_repeats_no_row(kind, tmp_path):
    rng, rounds = random.Random(5), 15 if kind == "ours" else 6
    with a_matrix(kind, tmp_path) as (broker, matrix):
        batches = MicroBatches(matrix.kills.path)
        for _ in range(rounds):
            matrix.add_batches(2)
            matrix.kills.order()
            matrix.begin_copy(batches)
            time.sleep(rng.random() * 2)
            broker.restart()
            assert matrix.end_copy(batches) is None
        batches.close()
        assert matrix.finish(batches) == []
