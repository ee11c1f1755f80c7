import os
import threading
import time

import pytest
from support.builders.append_records import append_values

from broker_core.embedded.embedded_cluster import open_embedded
from broker_core.log_directory.directory import LogDirectory
from broker_core.log_directory.partition_lock import LockMode
from broker_core.log_directory.system_ports import SystemEntropy
from broker_core.model.exceptions import DirectoryLockedError
from broker_core.storage.os_file_system import OsFileSystem
from spark_streamlog.errors import with_conditions
from spark_streamlog.open_cluster import open_for_writing
from spark_streamlog.options.option_reader import LogTarget
from spark_streamlog.spark_calls import SPARK_CALLS, SparkCalls, is_spark_worker


class WatchedClock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return WatchedClock()


@pytest.fixture
def released():
    return []


@pytest.fixture
def calls(clock, released, monkeypatch):
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    calls = SparkCalls(idle_seconds=3, now=clock)
    calls.on_idle(lambda: released.append(clock.now) or True)
    return calls


def test_open_logs_are_released_some_seconds_after_the_last_call(calls, clock, released):
    with calls.running():
        clock.now = 110
        assert calls.release_if_idle() == 3
    clock.now = 112
    assert calls.release_if_idle() == 1
    assert not released
    clock.now = 113
    assert calls.release_if_idle() is None
    assert released == [113]


def test_a_nested_call_does_not_end_the_outer_one(calls, clock, released):
    with calls.running():
        with calls.running():
            pass
        clock.now = 200
        assert calls.release_if_idle() == 3
    assert not released


def test_a_failed_call_has_ended(calls, clock, released):
    with pytest.raises(ValueError, match="the call failed"), calls.running():
        raise ValueError("the call failed")
    clock.now += 3
    assert calls.release_if_idle() is None
    assert released


def test_the_process_that_plans_a_stream_is_never_idle(calls, clock, released):
    with calls.running():
        calls.keep_busy()
    clock.now += 1000
    assert calls.release_if_idle() == 3
    assert not released


def test_a_busy_log_is_released_later(clock):
    answers = [False, True]
    calls = SparkCalls(idle_seconds=3, now=clock)
    calls.on_idle(lambda: answers.pop(0))
    with calls.running():
        pass
    clock.now += 3
    assert calls.release_if_idle() == 3
    assert calls.release_if_idle() is None
    assert not answers


def test_a_call_that_begins_during_the_release_waits(clock):
    order, in_release = [], threading.Event()
    go_on = threading.Event()
    calls = SparkCalls(idle_seconds=0, now=clock)

    def release():
        in_release.set()
        assert go_on.wait(30)
        order.append("released")
        return True

    calls.on_idle(release)
    watcher = threading.Thread(target=calls.release_if_idle)
    watcher.start()
    assert in_release.wait(30)

    def call():
        with calls.running():
            order.append("called")

    caller = threading.Thread(target=call)
    caller.start()
    go_on.set()
    watcher.join()
    caller.join()
    assert order == ["released", "called"]


@pytest.mark.parametrize("name", ["SPARK_REUSE_WORKER", "PYTHON_WORKER_FACTORY_PORT"])
def test_a_spark_worker_has_a_watcher_and_a_users_program_has_none(monkeypatch, name):
    for each in list(os.environ):
        if each == "SPARK_REUSE_WORKER" or each.startswith("PYTHON_WORKER_FACTORY_"):
            monkeypatch.delenv(each)
    done = threading.Event()
    calls = SparkCalls(idle_seconds=0.01)
    calls.on_idle(lambda: done.set() or True)
    with calls.running():
        pass
    assert not is_spark_worker()
    assert not done.wait(0.1)
    monkeypatch.setenv(name, "1")
    with calls.running():
        pass
    assert done.wait(30)


def may_serve(path):
    """Whether a broker could take the directory now."""
    try:
        LogDirectory(
            OsFileSystem(), str(path), create=False, entropy=SystemEntropy(), lock_mode=LockMode.EXCLUSIVE
        ).close()
    except DirectoryLockedError:
        return False
    return True


@pytest.fixture
def short_wait(monkeypatch):
    monkeypatch.setattr("broker_core.log_directory.directory._LOCK_WAIT_SECONDS", 0.0)


def test_a_broker_can_use_the_directory_of_an_idle_worker(tmp_path, short_wait, monkeypatch):
    monkeypatch.setattr(SPARK_CALLS, "_now", lambda: time.monotonic() + 1000)
    monkeypatch.setattr(SPARK_CALLS, "_running_count", 0)
    monkeypatch.setattr(SPARK_CALLS, "_idle_since", 0.0)
    path = tmp_path / "log"
    cluster = open_for_writing(LogTarget(path=str(path)))
    with with_conditions():
        cluster.create_topic("t")
        append_values(cluster, "t", "a")
        assert SPARK_CALLS.release_if_idle() is not None
        assert not may_serve(path)
    monkeypatch.setattr(SPARK_CALLS, "_idle_since", 0.0)
    assert SPARK_CALLS.release_if_idle() is None
    assert may_serve(path)
    append_values(cluster, "t", "b")
    assert not may_serve(path)


def test_a_released_log_is_refused_while_a_broker_serves_it(tmp_path, short_wait):
    path = tmp_path / "log"
    with open_embedded(path, create=True) as cluster:
        cluster.create_topic("t")
        assert cluster.release()
        broker = LogDirectory(
            OsFileSystem(), str(path), create=False, entropy=SystemEntropy(), lock_mode=LockMode.EXCLUSIVE
        )
        for _ in range(2):
            with pytest.raises(DirectoryLockedError, match=r"kafka\.bootstrap\.servers"):
                cluster.describe_topics()
        broker.close()
        assert "t" in cluster.describe_topics()
        assert cluster.release()
        assert cluster.release(), "twice is harmless"
