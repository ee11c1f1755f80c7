"""Commits by a plan: in processes that have not loaded the log, and without a way to commit anything twice."""

import pickle

import pytest
from support.builders.builders import a_batch

from broker_core.model.exceptions import UnknownTopicError, UploadExpiredError
from broker_core.model.identifiers import TopicPartition
from broker_core.object_cluster import staged_commits
from broker_core.object_log import staging_outline
from broker_core.staged_writes import AppVersion

T0 = TopicPartition("t", 0)


@pytest.fixture
def driver(cluster):
    return cluster


def version(number, note=""):
    return AppVersion(app_id="q", version=number, note=note)


def staged_by(task, plan):
    """Two records of a task that is a process of its own, or this one."""
    upload = task.stage(pickle.loads(pickle.dumps(plan)))
    upload.append(T0, bytearray(a_batch(2)))
    return upload.finish()


def end_of(log):
    """By a process that reads all commits: it refuses one that should not be there."""
    return log.open().bounds(T0).log_end_offset


def test_a_task_uploads_and_a_commit_commits_and_neither_loads_the_log(log, driver):
    plan = driver.plan_staging(["t"], "q")
    before = log.store.requests.copy()
    staged = [staged_by(log.open(), plan) for _ in range(3)]
    assert log.open().commit_staged(staged, app=version(1), plan=plan).is_new
    assert log.store.requests - before == {"upload_part": 3, "upload": 3, "put_if_absent": 1}
    assert end_of(log) == 6
    assert log.open().last_version("q") == version(1)


def test_a_process_that_commits_again_and_again_sends_one_request_for_each(log, driver):
    plan = driver.plan_staging(["t"], "q")
    committing = log.open()
    for number in range(5):
        staged = staged_by(log.open(), plan)
        before = log.store.requests.copy()
        assert committing.commit_staged([staged], app=version(number), plan=plan).is_new
        assert log.store.requests - before == {"put_if_absent": 1}
    assert end_of(log) == 10


def test_if_another_writer_was_faster_the_log_is_loaded_and_the_commit_follows(log, driver):
    plan = driver.plan_staging(["t"], "q")
    log.open().create_topic("other")
    committing = log.open()
    assert committing.commit_staged([staged_by(log.open(), plan)], app=version(1), plan=plan).is_new
    log.open().create_topic("another")
    assert committing.commit_staged([staged_by(log.open(), plan)], app=version(2), plan=plan).is_new
    assert end_of(log) == 4


@pytest.mark.parametrize("app", [None, version(1)])
@pytest.mark.parametrize("is_same_process", [True, False])
def test_what_is_committed_again_is_not_committed_twice(log, driver, app, is_same_process):
    plan = driver.plan_staging(["t"], None if app is None else "q")
    staged, other = staged_by(log.open(), plan), staged_by(log.open(), plan)
    first = log.open()
    assert first.commit_staged([staged], app=app, plan=plan).is_new
    if app is None:
        assert first.commit_staged([other], plan=plan).is_new
    again = first if is_same_process else log.open()
    assert not again.commit_staged([staged], app=app, plan=plan).is_new
    assert end_of(log) == (4 if app is None else 2)


def test_an_upload_that_was_committed_is_refused_under_another_version_too(log, driver):
    plan = driver.plan_staging(["t"], "q")
    staged = staged_by(log.open(), plan)
    first = log.open()
    assert first.commit_staged([staged], app=version(1), plan=plan).is_new
    later = driver.plan_staging(["t"], "q")
    assert not first.commit_staged([staged], app=version(2), plan=plan).is_new
    driver.last_version("q")
    later = driver.plan_staging(["t"], "q")
    assert not log.open().commit_staged([staged], app=version(2), plan=later).is_new
    assert end_of(log) == 2


def test_an_older_version_than_the_plan_knows_is_not_committed(log, driver):
    driver.commit_staged([], app=version(7, "note"))
    plan = driver.plan_staging(["t"])
    assert plan.version_of("q") == version(7, "note")
    outcome = log.open().commit_staged([staged_by(log.open(), plan)], app=version(7), plan=plan)
    assert (outcome.is_new, outcome.last) == (False, version(7, "note"))
    assert end_of(log) == 0


def test_topics_and_versions_that_the_plan_does_not_know_are_looked_up(log, driver, monkeypatch):
    monkeypatch.setattr(staging_outline, "MAX_PLANNED_TOPIC_COUNT", 0)
    monkeypatch.setattr(staging_outline, "MAX_PLANNED_APP_COUNT", 0)
    driver.commit_staged([], app=version(3))
    plan = driver.plan_staging()
    assert plan.topics == () and plan.version_of("q") is None and not plan.knows_version_of("q")
    staged = staged_by(log.open(), plan)
    assert not log.open().commit_staged([staged], app=version(3), plan=plan).is_new
    assert log.open().commit_staged([staged], app=version(4), plan=plan).is_new
    assert end_of(log) == 2


def test_a_topic_that_was_deleted_after_the_plan_is_refused_and_the_log_stays_readable(log, driver):
    plan = driver.plan_staging(["t"], "q")
    staged = staged_by(log.open(), plan)
    log.open().delete_topic("t")
    with pytest.raises(UnknownTopicError):
        log.open().commit_staged([staged], app=version(1), plan=plan)
    assert log.open().describe_topics() == {}


def test_an_upload_below_the_horizon_is_refused_by_a_plan_too(log, driver):
    plan = driver.plan_staging(["t"], "q")
    staged = staged_by(log.open(), plan)
    log.clock.milliseconds += 10_000
    driver.commit_staged([], app=version(0))
    driver.maintain(grace_ms=1000)
    driver.last_version("q")
    late = driver.plan_staging(["t"], "q")
    with pytest.raises(UploadExpiredError):
        log.open().commit_staged([staged], app=version(1), plan=late)


def test_a_plan_is_at_most_half_a_minute_old(log, driver):
    assert driver.plan_staging(["t"], "q").apps == ()
    log.open().commit_staged([], app=version(1))
    before = log.store.requests.copy()
    log.clock.milliseconds += int(staged_commits.MAX_PLAN_AGE_MS)
    assert driver.plan_staging(["t"], "q").apps == ()
    assert log.store.requests == before
    log.clock.milliseconds += 1
    assert driver.plan_staging(["t"], "q").apps == (version(1),)
    log.open().create_topic("new")
    assert driver.plan_staging(["new"], "q").topic("new") is not None, "a missing topic is looked up at once"


def test_objects_of_own_commits_are_remembered_in_bounded_memory(log, driver, monkeypatch):
    monkeypatch.setattr(staged_commits, "MAX_OWN_OBJECT_COUNT", 2)
    plan = driver.plan_staging(["t"], "q")
    committing = log.open()
    uploads = [staged_by(log.open(), plan) for _ in range(4)]
    for number, staged in enumerate(uploads):
        assert committing.commit_staged([staged], app=version(number), plan=plan).is_new
    assert not committing.commit_staged([uploads[0]], app=version(9), plan=plan).is_new
    assert end_of(log) == 8
