"""What Spark's worker does not look through again after each task."""

import gc

import pytest
from pyspark import TaskContext

from spark_streamlog.worker import worker_memory
from spark_streamlog.worker.worker_memory import freeze_loaded_objects, freeze_objects_of_planning


@pytest.fixture(autouse=True)
def nothing_spared(monkeypatch):
    monkeypatch.setattr(worker_memory, "_frozen_in", None)
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.fixture
def in_a_task(monkeypatch):
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    TaskContext._setTaskContext(TaskContext())
    yield
    TaskContext._setTaskContext(None)


class Node:
    """May become garbage in a ring, which only a collection finds."""

    gone = 0

    def __init__(self):
        self.itself = self

    def __del__(self):
        Node.gone += 1


def test_loaded_objects_are_not_scanned_after_the_first_task(in_a_task):
    looked_through = len(gc.get_objects())
    freeze_loaded_objects()
    assert gc.get_freeze_count() > looked_through // 2
    assert len(gc.get_objects()) < looked_through // 2


def test_garbage_of_the_first_task_is_collected_before_the_freeze(in_a_task):
    Node.gone = 0
    Node()
    freeze_loaded_objects()
    assert Node.gone == 1


def test_garbage_of_later_tasks_is_still_collected(in_a_task):
    freeze_loaded_objects()
    spared = gc.get_freeze_count()
    Node.gone = 0
    Node()
    freeze_loaded_objects()
    assert gc.get_freeze_count() <= spared
    gc.collect()
    assert Node.gone == 1


def test_a_process_without_tasks_is_not_changed():
    freeze_loaded_objects()
    assert gc.get_freeze_count() == 0


def test_a_worker_that_is_not_reused_collects_nothing(in_a_task, monkeypatch):
    monkeypatch.delenv("SPARK_REUSE_WORKER")
    freeze_loaded_objects()
    assert gc.get_freeze_count() == 0


def test_the_planning_process_freezes_once_and_a_users_program_never(monkeypatch):
    monkeypatch.setattr(worker_memory, "is_spark_worker", lambda: False)
    freeze_objects_of_planning()
    assert gc.get_freeze_count() == 0
    monkeypatch.setattr(worker_memory, "is_spark_worker", lambda: True)
    freeze_objects_of_planning()
    spared = gc.get_freeze_count()
    assert spared > 1000
    freeze_objects_of_planning()
    assert gc.get_freeze_count() <= spared
