import fcntl
import os
import subprocess
import sys
import threading
import time

import pytest

from broker_core.log_directory.partition_lock import PartitionLock
from broker_core.ports import LockMode

SHARED, EXCLUSIVE = LockMode.SHARED, LockMode.EXCLUSIVE

HOLD_AS_JAVA = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(descriptor, fcntl.LOCK_EX if sys.argv[2] == "exclusive" else fcntl.LOCK_SH)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / ".lock")


@pytest.fixture
def java_process(path):
    """Holds the lock as java.nio's FileChannel.lock does, by a classic record lock."""
    started = []

    def start(mode):
        command = [sys.executable, "-c", HOLD_AS_JAVA, path, mode]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("held", "wanted", "is_got"),
    [(SHARED, SHARED, True), (SHARED, EXCLUSIVE, False), (EXCLUSIVE, SHARED, False), (EXCLUSIVE, EXCLUSIVE, False)],
)
@pytest.mark.parametrize("same_object", [True, False])
def test_shared_locks_coexist_and_an_exclusive_lock_excludes_all(path, held, wanted, is_got, same_object):
    first = PartitionLock(path)
    second = first if same_object else PartitionLock(path)
    assert first.acquire(held)
    assert second.acquire(wanted, timeout_seconds=0.02) is is_got
    if is_got:
        second.release()
    first.release()
    assert second.acquire(EXCLUSIVE, timeout_seconds=0)
    second.release()


@pytest.mark.parametrize(
    ("held", "wanted", "is_got"),
    [("shared", SHARED, True), ("shared", EXCLUSIVE, False), ("exclusive", SHARED, False)],
)
def test_the_lock_excludes_a_java_process_and_vice_versa(path, java_process, held, wanted, is_got):
    process = java_process(held)
    lock = PartitionLock(path)
    assert lock.acquire(wanted, timeout_seconds=0) is is_got
    process.kill()
    process.wait()
    if not is_got:
        assert lock.acquire(wanted, timeout_seconds=5)


def test_a_posix_lock_conflicts_with_ours(path):
    lock = PartitionLock(path)
    with lock.shared():
        descriptor = os.open(path, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


def test_the_lock_is_held_until_the_last_sharer_releases_it(path):
    lock, other = PartitionLock(path), PartitionLock(path)
    lock.acquire(SHARED)
    lock.acquire(SHARED)
    lock.release()
    assert not other.acquire(EXCLUSIVE, timeout_seconds=0)
    lock.release()
    assert other.acquire(EXCLUSIVE, timeout_seconds=0)


def test_a_downgraded_lock_is_shared(path):
    lock, other = PartitionLock(path), PartitionLock(path)
    lock.acquire(EXCLUSIVE)
    lock.downgrade()
    assert not other.acquire(EXCLUSIVE, timeout_seconds=0)
    assert other.acquire(SHARED, timeout_seconds=0)


def test_closing_releases_the_lock(path):
    lock = PartitionLock(path)
    lock.acquire(EXCLUSIVE)
    lock.close()
    assert PartitionLock(path).acquire(EXCLUSIVE, timeout_seconds=0)


@pytest.mark.parametrize("same_object", [True, False])
def test_threads_exclude_each_other(path, same_object):
    shared_lock = PartitionLock(path)
    counter = [0]

    def count():
        lock = shared_lock if same_object else PartitionLock(path)
        for _ in range(50):
            with lock.exclusive():
                seen = counter[0]
                os.stat(path)  # lets another thread in, if the lock does not keep it out
                counter[0] = seen + 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter[0] == 200


def test_a_forked_child_holds_nothing_and_cannot_open_the_parents_lock(path):
    lock = PartitionLock(path)
    lock.acquire(EXCLUSIVE)
    child = os.fork()
    if child == 0:
        # The inherited descriptor is closed, and closing it has not unlocked the parent.
        got_it = lock.acquire(EXCLUSIVE, timeout_seconds=0.05)
        os._exit(1 if got_it else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not PartitionLock(path).acquire(EXCLUSIVE, timeout_seconds=0)
    lock.release()
    assert PartitionLock(path).acquire(EXCLUSIVE, timeout_seconds=0)


def test_a_child_that_outlives_its_parent_does_not_hold_the_parents_lock(path):
    ours, theirs = os.pipe()
    parent = os.fork()
    if parent == 0:
        lock = PartitionLock(path)
        lock.acquire(EXCLUSIVE)
        grandchild = os.fork()
        if grandchild == 0:
            os.close(theirs)
            os.read(ours, 1)
            os._exit(0)
        os._exit(0)
    os.waitpid(parent, 0)
    assert PartitionLock(path).acquire(EXCLUSIVE, timeout_seconds=2)
    os.close(theirs)
    os.close(ours)


def test_a_read_only_lock_file_can_be_shared(path, monkeypatch):
    PartitionLock(path).acquire(SHARED)
    opened = os.open
    refused = []

    def open_read_only(file_path, flags, *mode):
        if flags & os.O_RDWR:
            refused.append(file_path)
            raise PermissionError(13, "Permission denied", file_path)
        return opened(file_path, flags, *mode)

    monkeypatch.setattr(os, "open", open_read_only)
    lock = PartitionLock(path)
    assert lock.acquire(SHARED, timeout_seconds=0)
    lock.release()
    assert refused
    with pytest.raises(PermissionError):
        lock.acquire(EXCLUSIVE, timeout_seconds=0)
    assert lock.acquire(SHARED, timeout_seconds=0)
    with pytest.raises(PermissionError):
        PartitionLock(path).acquire(EXCLUSIVE)


def test_a_missing_lock_file_is_created_or_reported(path):
    with pytest.raises(FileNotFoundError):
        PartitionLock(path, creates=False).acquire(SHARED)
    PartitionLock(path).acquire(SHARED)
    PartitionLock(path, creates=False).acquire(SHARED)


@pytest.mark.parametrize("timeout_seconds", [None, 60])
@pytest.mark.parametrize(
    ("held", "give_way", "wanted"),
    [
        (SHARED, PartitionLock.release, EXCLUSIVE),
        (EXCLUSIVE, PartitionLock.release, SHARED),
        (EXCLUSIVE, PartitionLock.release, EXCLUSIVE),
        (EXCLUSIVE, PartitionLock.downgrade, SHARED),
    ],
)
def test_a_waiting_thread_is_woken_when_the_owner_releases(path, held, give_way, wanted, timeout_seconds):
    lock, is_got = PartitionLock(path), threading.Event()
    lock.acquire(held)
    waiting = a_waiter(lock, wanted, is_got, timeout_seconds)
    give_way(lock)
    assert is_got.wait(20)
    waiting.join()
    lock.release()


def test_a_waiting_thread_is_woken_even_if_unlocking_fails(path, monkeypatch):
    lock, is_got = PartitionLock(path), threading.Event()
    lock.acquire(EXCLUSIVE)
    waiting = a_waiter(lock, EXCLUSIVE, is_got, None)

    def refuse():
        raise OSError(5, "refused")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="refused"):
        patched.setattr(lock._file, "unlock", refuse)
        lock.release()
    assert is_got.wait(20)
    waiting.join()


def a_waiter(lock, wanted, is_got, timeout_seconds):
    """A thread that waits by now."""
    thread = threading.Thread(target=lambda: lock.acquire(wanted, timeout_seconds=timeout_seconds) and is_got.set())
    thread.daemon = True
    thread.start()
    while not lock._waiting_count:
        time.sleep(0.001)
    return thread
