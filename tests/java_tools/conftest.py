"""Kafka's own command line tools against our broker or, with `--kafka real`, against Apache Kafka, which shows that
the tests are right. One JVM and one broker serve the whole suite; each test has its own names for topics, groups and
ids.
"""

from pathlib import Path

import pytest
from support.brokers.java_tool_host import BrokerTools, ToolHost
from support.brokers.kafka_tools import why_unavailable
from support.brokers.reachable_broker import PASSWORD, USER
from support.brokers.real_kafka import RealKafka
from support.brokers.scram_users import add_scram_user
from support.brokers.served_broker import ServedBroker

HERE = Path(__file__).parent
SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Clients without a login may do everything, so that only the tests of access rules see refusals.
    f"super.users=User:ANONYMOUS;User:{USER}",
    "group.min.session.timeout.ms=500",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=200",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def host(tmp_path_factory):
    """The JVM of all tools."""
    reason = why_unavailable()
    if reason:
        pytest.skip(reason)
    running = ToolHost(tmp_path_factory.mktemp("tools") / "host.log")
    yield running
    running.close()


@pytest.fixture(scope="session")
def is_real(request):
    return request.config.getoption("--kafka") == "real"


@pytest.fixture(scope="session")
def broker(host, is_real, tmp_path_factory):
    folder = tmp_path_factory.mktemp("broker") / "node"
    if is_real:
        running = RealKafka(folder, SETTINGS)
    else:
        running = ServedBroker(folder, SETTINGS)
        add_scram_user(running, USER, PASSWORD)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def tools(host, broker):
    """Kafka's tools at the broker: `tools.run("TopicCommand", "--list")`."""
    return BrokerTools(host, broker.bootstrap())
