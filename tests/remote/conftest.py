"""Our client against either broker; some tests need Spark too.

A run shares one of each. Each test has its own names for topics, groups and transactional ids.
"""

import pytest
from support.brokers.either_broker import EITHER_BROKER, running_broker
from support.spark.spark_session import spark

__all__ = ["spark"]


@pytest.fixture(scope="session", params=EITHER_BROKER)
def broker(request, tmp_path_factory):
    with running_broker(request.param, tmp_path_factory.mktemp("broker") / "node") as running:
        yield running


@pytest.fixture(scope="session")
def client(broker):
    """A client that all tests share."""
    with broker.client() as shared:
        yield shared


@pytest.fixture
def topic(broker, client):
    """A new topic with two partitions; its name. Records of 1970 stay in it."""
    name = broker.name()
    client.create_topic(name, partition_count=2, configs={"retention.ms": "-1"})
    return name
