"""Fixtures of a log on object storage in memory. A conftest imports them for its folder."""

import pytest
from support.objects.object_builders import MemoryLog


@pytest.fixture
def log():
    """The store, the clock, and whatever opens the log."""
    return MemoryLog()


@pytest.fixture
def cluster(log):
    """Topic `t` with two partitions, as one process has it open."""
    with log.open() as cluster:
        cluster.create_topic("t", partition_count=2)
        yield cluster
