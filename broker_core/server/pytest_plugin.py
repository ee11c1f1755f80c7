"""Fixtures for testing Kafka clients, without Java and without containers. Installed with the package.

    def test_an_order_arrives(streamlog_broker):
        producer = Producer({"bootstrap.servers": streamlog_broker.bootstrap_servers})

`streamlog_broker` is a real broker in a thread of the test's process, on a free port of 127.0.0.1, with an empty log of
its own. `.stop()`, `.kill()` and `.restart()` test how clients handle an outage. `streamlog_broker_settings` can be
overridden, in a conftest or by a test's own fixture, with settings as in a broker's configuration file.
`streamlog_path` is an empty log directory for `format("streamlog").load(path)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from broker_core.server.broker_thread import BrokerThread


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
