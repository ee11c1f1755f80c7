import sys
import time
from contextlib import closing

import pytest

from broker_core.log_directory.system_ports import SYSTEM_LOCKS, SystemClock, SystemEntropy, is_locked_exclusively
from broker_core.ports import LockMode


def test_the_clock_counts_milliseconds_since_1970():
    assert abs(SystemClock().now_ms() - time.time() * 1000) < 5000


def test_random_draws_differ():
    entropy = SystemEntropy()
    assert len({entropy.random_bytes(16) for _ in range(100)}) == 100
    assert len(entropy.random_bytes(5)) == 5


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a lock without taking it")
def test_a_lock_is_seen_and_not_taken(tmp_path):
    path = str(tmp_path / ".lock")
    assert not is_locked_exclusively(path), "there is no file"
    with closing(SYSTEM_LOCKS.open(path, LockMode.EXCLUSIVE, creates=True)) as held:
        assert not is_locked_exclusively(path)
        assert held.lock(LockMode.SHARED, waits=False)
        assert not is_locked_exclusively(path), "an embedded process shares it"
        assert held.lock(LockMode.EXCLUSIVE, waits=False)
        assert is_locked_exclusively(path)
        held.unlock()
        assert not is_locked_exclusively(path)
