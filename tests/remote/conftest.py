"""The client at either broker; some need Spark too.

A run shares one of each. Topics, groups and transactional ids are told apart by names.
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
    """A client for everybody."""
    with broker.client() as shared:
        yield shared


@pytest.fixture
def topic(broker, client):
    """A new topic with two partitions; its name. Records of 1970 stay in it."""
    name = broker.name()
    client.create_topic(name, partition_count=2, configs={"retention.ms": "-1"})
    return name
