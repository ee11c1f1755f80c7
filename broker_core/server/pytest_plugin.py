"""Fixtures for testing Kafka clients, without Java and without containers. Installed with the package.

    def test_an_order_arrives(streamlog_broker):
        producer = Producer({"bootstrap.servers": streamlog_broker.bootstrap_servers})

`streamlog_broker` is a real broker in a thread of the test's process, on a free port of 127.0.0.1, with an empty log of
its own. `.stop()`, `.kill()` and `.restart()` test how clients handle an outage. `streamlog_broker_settings` can be
overridden, in a conftest or by a test's own fixture, with settings as in a broker's configuration file.
`streamlog_path` is an empty log directory for `format("streamlog").load(path)`.

`streamlog_cluster` is a cluster of three nodes that replicate, each a process of its own, which can be killed, paused,
stopped and restarted by itself: `.node(1).kill()`. `streamlog_cluster_settings` can be overridden.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from broker_core.server.broker_thread import BrokerThread
    from broker_core.server.local.local_cluster import LocalCluster


@pytest.fixture
def streamlog_path(tmp_path: Path) -> Path:
    """An empty log directory."""
    path = tmp_path / "streamlog"
    path.mkdir()
    return path


@pytest.fixture
def streamlog_broker_settings() -> Mapping[str, str]:
    """Settings of `streamlog_broker`, besides its listener and its directory."""
    return {}


@pytest.fixture
def streamlog_broker(streamlog_path: Path, streamlog_broker_settings: Mapping[str, str]) -> Iterator[BrokerThread]:
    """A running broker for one test."""
    # Not imported at the top: pytest loads this module even if no test uses a broker.
    from broker_core.broker.settings.broker_config import parse_broker_config
    from broker_core.server.broker_thread import BrokerThread
    from broker_core.server.development import development_settings

    settings = {**development_settings(str(streamlog_path), port=0), **streamlog_broker_settings}
    with BrokerThread(parse_broker_config(settings)) as broker:
        yield broker


@pytest.fixture
def streamlog_cluster_settings() -> Mapping[str, str]:
    """Settings of each node of `streamlog_cluster`, besides those of `local_settings`."""
    return {}


@pytest.fixture
def streamlog_cluster(tmp_path: Path, streamlog_cluster_settings: Mapping[str, str]) -> Iterator[LocalCluster]:
    """A running cluster of three nodes for one test."""
    from broker_core.server.local.cluster_layout import open_layout
    from broker_core.server.local.local_cluster import LocalCluster

    layout = open_layout(tmp_path / "cluster", settings=streamlog_cluster_settings, is_port_random=True)
    with LocalCluster(layout) as cluster:
        yield cluster
