"""With the real node."""

import pytest
from support.brokers.small_broker import RawClient, versions

from broker_core.broker.settings.broker_config import parse_broker_config
from broker_core.client.cluster_client import open_remote
from broker_core.model.client_settings import parse_client_settings
from broker_core.model.exceptions import DirectoryLockedError
from broker_core.server.broker_thread import BrokerThread
from broker_core.server.development import development_settings


def started(path):
    return BrokerThread(parse_broker_config(development_settings(str(path), port=0)))


def topics_of(broker):
    with open_remote(parse_client_settings({"bootstrap.servers": broker.bootstrap_servers})) as cluster:
        return set(cluster.describe_topics())


def make_topic(broker, name):
    with open_remote(parse_client_settings({"bootstrap.servers": broker.bootstrap_servers})) as cluster:
        cluster.create_topic(name, partition_count=1)


@pytest.fixture
def broker(tmp_path):
    with started(tmp_path / "log") as running:
        yield running


def test_the_test_broker_keeps_port_and_log_across_a_restart(broker):
    make_topic(broker, "kept")
    before = broker.bootstrap_servers
    broker.restart()
    assert broker.bootstrap_servers == before
    assert topics_of(broker) == {"kept"}


def test_the_test_broker_can_be_killed_and_restarted(broker):
    make_topic(broker, "kept")
    broker.kill()
    assert not broker.is_running
    broker.start()
    assert topics_of(broker) == {"kept"}


def test_a_second_broker_on_the_same_log_is_refused(broker, monkeypatch):
    monkeypatch.setattr("broker_core.log_directory.directory._LOCK_WAIT_SECONDS", 0.05)
    with pytest.raises(DirectoryLockedError):
        started(broker.path)
    with RawClient(int(broker.bootstrap_servers.rpartition(":")[2])) as client:
        assert versions(client).api_keys


def test_the_test_broker_can_be_stopped_twice(broker):
    broker.stop()
    broker.stop()
    broker.kill()
