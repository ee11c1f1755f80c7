import os
import threading

from broker_core.embedded.maintenance_thread import MaintenanceThread
from broker_core.model.identifiers import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_requested_maintenance_completes_before_stop_returns():
    done = []
    maintenance = MaintenanceThread(done.append)
    maintenance.ask_for(T0)
    maintenance.ask_for(T1)
    maintenance.stop()
    assert done == [T0, T1]


def test_a_partition_is_queued_once():
    begin, done = threading.Event(), []

    def work(partition):
        assert begin.wait(10)
        done.append(partition)

    maintenance = MaintenanceThread(work)
    maintenance.ask_for(T0)
    for _ in range(5):
        maintenance.ask_for(T1)
    begin.set()
    maintenance.stop()
    assert done == [T0, T1]


def test_an_error_in_one_partition_does_not_stop_others(caplog):
    done = []

    def work(partition):
        if partition == T0:
            raise OSError("no disk")
        done.append(partition)

    maintenance = MaintenanceThread(work)
    maintenance.ask_for(T0)
    maintenance.ask_for(T1)
    maintenance.stop()
    assert done == [T1]
    assert "maintenance of t-0 failed: no disk" in caplog.text


def test_nothing_is_accepted_after_stop():
    done = []
    maintenance = MaintenanceThread(done.append)
    maintenance.stop()
    maintenance.ask_for(T0)
    maintenance.stop()
    assert done == []


def test_a_forked_child_starts_its_own_thread():
    release = threading.Event()
    maintenance = MaintenanceThread(lambda partition: release.wait(10))
    maintenance.ask_for(T0)
    child = os.fork()
    if child == 0:
        done = []
        maintenance._work = done.append
        maintenance.ask_for(T1)
        maintenance.stop()
        os._exit(0 if done == [T1] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    release.set()
    maintenance.stop()
