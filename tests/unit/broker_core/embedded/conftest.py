"""A cluster in a directory, and its clock."""

import pytest
from support.clients.transacting import SetClock

from broker_core.embedded.embedded_cluster import EmbeddedCluster


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def cluster(tmp_path, clock):
    """With the topic `t` of two partitions, which keeps records however old."""
    with EmbeddedCluster(tmp_path / "log", create=True, clock=clock) as opened:
        opened.create_topic("t", partition_count=2, configs={"retention.ms": "-1"})
        yield opened
