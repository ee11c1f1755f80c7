"""All tests here need a real Kafka, which one run shares; some need a Spark session too."""

from pathlib import Path

import pytest
from real_kafka import kafka
from spark_session import spark

__all__ = ["kafka", "spark"]

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def client(kafka):
    """A client for everybody."""
    with kafka.client() as shared:
        yield shared


@pytest.fixture
def topic(kafka, client):
    """A new topic with two partitions; its name. Records of 1970 stay in it."""
    name = kafka.name()
    client.create_topic(name, partition_count=2, configs={"retention.ms": "-1"})
    return name
