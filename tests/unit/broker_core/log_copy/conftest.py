"""A directory, a log on object storage and a broker, as sources and targets of copies."""

import pytest
from support.builders.copy_places import CopyPlaces

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.client.cluster_client import open_remote
from broker_core.model.client_settings import parse_client_settings
from broker_core.server.broker_thread import BrokerThread
from broker_core.server.development import development_settings


@pytest.fixture(scope="package")
def broker(tmp_path_factory):
    """Opens a client of one broker for the whole package."""
    settings = development_settings(str(tmp_path_factory.mktemp("broker")), port=0)
    with BrokerThread(parse_broker_config(settings)) as thread:
        yield lambda: open_remote(parse_client_settings({"bootstrap.servers": thread.bootstrap_servers}))


@pytest.fixture
def places(tmp_path, broker):
    return CopyPlaces(tmp_path, broker)
