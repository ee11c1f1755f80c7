"""Other people's clients against a broker: ours (one per run, and one for each module that kills it) or, with
`--kafka real`, Apache Kafka's (one per run), which shows that the tests are right.

Each test has its own names for topics, groups, users and transactional ids.
"""

from contextlib import contextmanager

import pytest
from support.brokers.kafka_tools import why_unavailable
from support.brokers.reachable_broker import PASSWORD, USER
from support.brokers.real_kafka import RealKafka
from support.brokers.scram_users import add_scram_user
from support.brokers.served_broker import ServedBroker

SETTINGS = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Clients without a login may do everything, so that only the tests of access rules see refusals.
    f"super.users=User:ANONYMOUS;User:{USER}",
    "group.min.session.timeout.ms=500",
    "group.consumer.min.session.timeout.ms=500",
    "group.consumer.session.timeout.ms=1000",
    "group.consumer.min.heartbeat.interval.ms=50",
    "group.consumer.heartbeat.interval.ms=50",
    "delete.topic.enable=true",
)


@pytest.fixture(scope="session")
def real_broker(tmp_path_factory):
    reason = why_unavailable()
    if reason:
        pytest.skip(reason)
    running = RealKafka(tmp_path_factory.mktemp("kafka") / "node", SETTINGS)
    yield running
    running.stop()


@contextmanager
def a_broker_of_ours(folder):
    running = ServedBroker(folder, SETTINGS)
    add_scram_user(running, USER, PASSWORD)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def our_broker(tmp_path_factory):
    with a_broker_of_ours(tmp_path_factory.mktemp("broker") / "node") as running:
        yield running


@pytest.fixture(scope="module")
def broker_of_ours(tmp_path_factory):
    """For behaviour that a real Kafka does not have. It can be killed and restarted."""
    with a_broker_of_ours(tmp_path_factory.mktemp("ours") / "node") as running:
        yield running


@pytest.fixture(scope="module")
def broker(request, tmp_path_factory):
    """A running broker. `bootstrap(listener)` is the address of a listener; it can be killed and restarted."""
    if request.config.getoption("--kafka") == "real":
        yield request.getfixturevalue("real_broker")
    elif request.path.stem.endswith("_restarts"):
        with a_broker_of_ours(tmp_path_factory.mktemp("broker") / "node") as running:
            yield running
    else:
        yield request.getfixturevalue("our_broker")
