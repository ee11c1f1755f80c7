"""Tests of this room sync a lot, and none is about the device: in memory they take a third of the time."""

import tempfile
from pathlib import Path

import pytest
from transacting import SetClock

from broker_core.embedded.embedded_cluster import EmbeddedCluster


@pytest.fixture
def tmp_path(tmp_path):
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def cluster(tmp_path, clock):
    """With the topic `t` of two partitions, which keeps records however old."""
    with EmbeddedCluster(tmp_path / "log", create=True, clock=clock) as opened:
        opened.create_topic("t", partition_count=2, configs={"retention.ms": "-1"})
        yield opened
