"""Two brokers that get the same requests. With `--kafka real` the second is a real Kafka too: then every difference
comes from the harness.
"""

import pytest
from differential.sides import SETTINGS, SETTLE_SECONDS, side_of
from support.brokers.kafka_tools import why_unavailable
from support.brokers.real_kafka import RealKafka
from support.brokers.served_broker import ServedBroker


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """A real Kafka with an empty log."""
    reason = why_unavailable()
    if reason:
        pytest.skip(reason)
    running = RealKafka(tmp_path_factory.mktemp("kafka") / "node", SETTINGS)
    yield side_of("Kafka", running, SETTLE_SECONDS)
    running.stop()


@pytest.fixture(scope="session")
def ours(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ours") / "node"
    is_real = request.config.getoption("--kafka") == "real"
    running = RealKafka(folder, SETTINGS) if is_real else ServedBroker(folder, SETTINGS)
    yield side_of("another Kafka" if is_real else "ours", running, SETTLE_SECONDS if is_real else 0.0)
    running.stop()
