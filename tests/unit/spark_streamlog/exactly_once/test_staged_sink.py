"""The exactly-once protocol of a log on object storage, with the real log on a store in memory."""

from uuid import UUID

import pytest
from support.builders.builders import a_batch
from support.objects.object_builders import MemoryLog
from support.spark.sink_actors import steps

from broker_core.cluster import Cluster
from broker_core.model.identifiers import OffsetSpec, TopicPartition
from spark_streamlog.errors import ConditionError
from spark_streamlog.exactly_once.commit_protocol import BatchFacts
from spark_streamlog.exactly_once.sink_identity import (
    application_identity,
    query_identity,
    single_write_identity,
)
from spark_streamlog.exactly_once.staged_sink import StagedDriver, StagedTask

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
QUERY = query_identity("7d9a7a3c-58a2-4f2e-9d5a-4b0a0c1de001")
APPLICATION = application_identity("app", topic="t")


@pytest.fixture
def log():
    cluster = MemoryLog().open()
    cluster.create_topic("t", partition_count=2)
    return cluster


def ends(log: Cluster):
    found = log.list_offsets({T0: OffsetSpec.LATEST, T1: OffsetSpec.LATEST})
    return [found[T0].offset, found[T1].offset]


def staged_by(log, identity, batch, *, task=0, partition=T0, records=2):
    attempt = StagedTask(log, identity, task=task, attempt=0)
    assert attempt.may_write(batch)
    with attempt.writing():
        attempt.target.append(partition, bytearray(a_batch(records=records)))
        return attempt.finish()


def facts(batch, fingerprint=""):
    return BatchFacts(batch=batch, task_count=2, input_fingerprint=fingerprint)


def test_all_tasks_become_readable_together_with_the_decision(log):
    staged = [staged_by(log, QUERY, 0), staged_by(log, QUERY, 0, task=1, partition=T1)]
    assert ends(log) == [0, 0]
    StagedDriver(log, QUERY).commit(facts(0), staged)
    assert ends(log) == [2, 2]


def test_a_repeated_batch_is_not_written_again_and_its_tasks_skip(log):
    driver = StagedDriver(log, QUERY)
    driver.commit(facts(0, "f"), [staged_by(log, QUERY, 0)])
    assert not StagedTask(log, QUERY, task=0, attempt=1).may_write(0)
    driver.commit(facts(0, "f"), [])
    assert ends(log) == [2, 0]


def test_two_drivers_of_one_batch_commit_it_once(log):
    first, second = staged_by(log, QUERY, 0), staged_by(log, QUERY, 0)
    StagedDriver(log, QUERY).commit(facts(0), [first])
    StagedDriver(log, QUERY).commit(facts(0), [second])
    assert ends(log) == [2, 0]


def test_a_batch_without_rows_is_decided_too(log):
    StagedDriver(log, QUERY).commit(facts(0), [])
    assert not StagedTask(log, QUERY, task=0, attempt=0).may_write(0)
    assert StagedTask(log, QUERY, task=0, attempt=0).may_write(1)


@pytest.mark.parametrize(("batch", "fingerprint"), [(0, "b"), (1, "other")])
def test_a_query_with_another_history_is_refused(log, batch, fingerprint):
    driver = StagedDriver(log, QUERY)
    driver.commit(facts(0, "a"), [])
    driver.commit(facts(1, "b"), [])
    with pytest.raises(ConditionError, match="STREAMLOG_BATCH_NOT_NEXT"):
        driver.commit(facts(batch, fingerprint), [])


def test_a_task_of_an_older_batch_of_a_query_is_refused(log):
    StagedDriver(log, QUERY).commit(facts(5), [])
    with pytest.raises(ConditionError, match="STREAMLOG_BATCH_NOT_NEXT"):
        StagedTask(log, QUERY, task=0, attempt=0).may_write(4)


def test_an_older_version_of_an_application_is_not_written(log):
    driver = StagedDriver(log, APPLICATION)
    driver.commit(facts(5), [staged_by(log, APPLICATION, 5)])
    assert not StagedTask(log, APPLICATION, task=0, attempt=0).may_write(4)
    driver.commit(facts(4), [])
    assert ends(log) == [2, 0]


def test_a_failed_task_leaves_no_readable_rows(log):
    attempt = StagedTask(log, QUERY, task=0, attempt=0)
    with pytest.raises(ZeroDivisionError), attempt.writing():
        attempt.target.append(T0, bytearray(a_batch(records=2)))
        raise ZeroDivisionError
    assert ends(log) == [0, 0]


def test_a_task_without_rows_has_nothing_to_commit(log):
    attempt = StagedTask(log, QUERY, task=0, attempt=0)
    with attempt.writing():
        assert attempt.finish() is None


def test_a_single_write_is_published_once_even_if_the_commit_is_repeated(log):
    identity = single_write_identity(UUID(int=7))
    staged = staged_by(log, identity, None, records=3)
    driver = StagedDriver(log, identity)
    driver.take_over()
    driver.commit(facts(None), [staged])
    driver.commit(facts(None), [staged])
    assert ends(log) == [3, 0]


def test_an_abandoned_batch_is_not_readable_and_can_be_written_later(log):
    staged = staged_by(log, QUERY, 0)
    StagedDriver(log, QUERY).abandon([staged])
    assert ends(log) == [0, 0]
    StagedDriver(log, QUERY).commit(facts(0), [staged_by(log, QUERY, 0, records=1)])
    assert ends(log) == [1, 0]


def test_each_step_of_driver_and_task_is_a_log_line(log):
    driver, task = StagedDriver(log, QUERY), StagedTask(log, QUERY, task=0, attempt=0)
    with steps() as seen:
        driver.take_over()
        assert task.may_write(0)
        with pytest.raises(ZeroDivisionError), task.writing():
            raise ZeroDivisionError
        driver.commit(facts(0), [])
        driver.commit(facts(0), [])
        assert not task.may_write(0)
        driver.abandon([])
    assert [step.name for step in seen.seen] == [
        *("PLANNING", "PLANNED", "TASK_STARTED", "TASK_MAY_WRITE", "TASK_GAVE_UP"),
        *("COMMITTING", "DECIDED", "COMMITTED", "COMMITTING", "ALREADY_DECIDED", "COMMITTED"),
        *("TASK_STARTED", "TASK_SKIPS", "ABORTING", "ABORTED"),
    ]
