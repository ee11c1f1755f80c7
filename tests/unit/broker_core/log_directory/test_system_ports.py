import time

from broker_core.log_directory.system_ports import SystemClock, SystemEntropy


def test_the_clock_counts_milliseconds_since_1970():
    assert abs(SystemClock().now_ms() - time.time() * 1000) < 5000


def test_random_draws_differ():
    entropy = SystemEntropy()
    assert len({entropy.random_bytes(16) for _ in range(100)}) == 100
    assert len(entropy.random_bytes(5)) == 5
