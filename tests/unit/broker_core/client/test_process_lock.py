import os
import threading

from broker_core.client.process_lock import ProcessLock


def test_the_lock_excludes_other_threads():
    lock, seen = ProcessLock(), []

    def other():
        with lock:
            seen.append("other")

    with lock:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(0.05)
        seen.append("holder")
    thread.join()
    assert seen == ["holder", "other"]


def test_a_forked_child_can_acquire_a_lock_held_by_a_thread_of_the_parent():
    lock, is_held, may_end = ProcessLock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            is_held.set()
            may_end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    child = os.fork()
    if child == 0:
        with lock:
            os._exit(7)
    _, status = os.waitpid(child, 0)
    may_end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 7
